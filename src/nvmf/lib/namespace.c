/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a controller says of itself and of its namespaces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/commands.h"
#include "nvmf/lib/internal.h"

static int identify(struct weft_ctrl *c, uint8_t cns, uint32_t nsid, void *page,
		    struct weft_result *ret)
{
	struct weft_command command = {.opcode = NVME_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns};
	struct iovec iov = {page, NVME_IDENTIFY_LEN};

	return weft_queue_exec(&c->queue[0], &command, &iov, 1, WEFT_AGAIN, ret);
}

/* What came of it as text. */
static int tell(struct weft_ctrl *c, int err, const struct weft_result *r, const char *what)
{
	char text[128];

	if (r->status & NVME_STATUS_CODE)
		return ctrl_fail(c, err, "%s at %s: %s", what, c->place,
				 weft_status_text(r->status, false, text, sizeof(text)));
	/* Why a connection ended is said. */
	if (!ctrl_ended(c) || !c->error[0])
		ctrl_fail(c, err, "%s at %s: %s", what, c->place, strerror(-err));
	return err;
}

int weft_ctrl_identify(struct weft_ctrl *c, uint8_t cns, uint32_t nsid, void *page)
{
	struct weft_result r = {0};
	int err = identify(c, cns, nsid, page, &r);

	return err ? tell(c, err, &r, "Identify") : 0;
}

int weft_ctrl_namespaces(struct weft_ctrl *c, uint32_t after, uint32_t *ids, unsigned int room)
{
	uint32_t all[NVME_NS_LIST_MAX], count;
	struct weft_result r = {0};
	struct cursor cur;
	int err = identify(c, NVME_CNS_ACTIVE_NS_LIST, after, ctrl_page(c), &r);

	if (err)
		return tell(c, err, &r, "Identify of the namespace list");
	cur = cursor_init(ctrl_page(c), NVME_IDENTIFY_LEN);
	count = min_of(nvme_ns_list_get(&cur, all, NVME_NS_LIST_MAX), room);
	memcpy(ids, all, count * sizeof(*ids));
	return (int)count;
}

/* "1 to 64, 70, ..." of ascending IDs. */
static void ids_text(char *text, size_t room, const uint32_t *ids, uint32_t count)
{
	size_t at = 0;
	uint32_t last;

	text[0] = 0;
	for (uint32_t i = 0; i < count; i = last + 1) {
		for (last = i; last + 1 < count && ids[last + 1] == ids[last] + 1; last++)
			;
		if (at + 40 > room) {
			snprintf(text + at, room - at, ", ...");
			return;
		}
		at += (size_t)snprintf(text + at, room - at, i ? ", %u" : "%u", ids[i]);
		if (last > i)
			at += (size_t)snprintf(text + at, room - at,
					       last == i + 1 ? ", %u" : " to %u", ids[last]);
	}
}

static int no_such_namespace(struct weft_ctrl *c, uint32_t nsid)
{
	uint32_t all[NVME_NS_LIST_MAX];
	int count = weft_ctrl_namespaces(c, 0, all, NVME_NS_LIST_MAX);
	char ids[256];

	if (count < 0)
		return count;
	if (count == 0)
		return ctrl_fail(c, -ENODEV, "no namespace %u in '%s' at %s, nor any other", nsid,
				 c->nqn, c->place);
	ids_text(ids, sizeof(ids), all, (uint32_t)count);
	return ctrl_fail(c, -ENODEV, "no namespace %u in '%s' at %s; there %s %s", nsid, c->nqn,
			 c->place, count == 1 ? "is" : "are", ids);
}

/* The only one there is. */
static int find_only(struct weft_ctrl *c, uint32_t *ret)
{
	uint32_t all[NVME_NS_LIST_MAX];
	int count = weft_ctrl_namespaces(c, 0, all, NVME_NS_LIST_MAX);
	const char *advice = c->advice[WEFT_ADVICE_NSID];
	char ids[256], option[ADVICE_LEN + 10];

	if (count < 0)
		return count;
	if (count == 0)
		return ctrl_fail(c, -ENODEV, "'%s' at %s has no namespace", c->nqn, c->place);
	*ret = all[0];
	if (count == 1)
		return 0;
	ids_text(ids, sizeof(ids), all, (uint32_t)count);
	snprintf(option, sizeof(option), "%s%u", advice, all[0]);
	return ctrl_fail(c, -ENOTUNIQ,
			 "'%s' at %s has several namespaces (%s); say which: ?ns=%u%s", c->nqn,
			 c->place, ids, all[0], *advice ? option : "");
}

/* As weft_ctrl_identify_namespace(), to the library's own page. */
static int identify_namespace(struct weft_ctrl *c, uint32_t *nsid, struct nvme_id_ns *ret)
{
	struct weft_result r = {0};
	struct cursor cur;
	int err = 0;

	if (!*nsid)
		*nsid = c->uri.nsid;
	if (!*nsid)
		err = find_only(c, nsid);
	if (err)
		return err;
	err = identify(c, NVME_CNS_NS, *nsid, ctrl_page(c), &r);
	if (err && err != -ENODEV)
		return tell(c, err, &r, "Identify of the namespace");
	cur = cursor_init(ctrl_page(c), NVME_IDENTIFY_LEN);
	nvme_id_ns_get(&cur, ret);
	/* An ID that is valid but in no use reads as zeroes; one without blocks has a format. */
	return err || (!ret->nsze && !ret->lbaf[0].ds) ? no_such_namespace(c, *nsid) : 0;
}

int weft_ctrl_identify_namespace(struct weft_ctrl *c, uint32_t *nsid, void *page)
{
	struct nvme_id_ns id;
	int err = identify_namespace(c, nsid, &id);

	if (!err)
		memcpy(page, ctrl_page(c), NVME_IDENTIFY_LEN);
	return err;
}

/* --- the same as before ----------------------------------------------------------------------- */

void ctrl_namespace_lost(void *arg, uint32_t nsid)
{
	struct weft_ctrl *c = arg;

	ctrl_fail(c, 0,
		  "namespace %u of '%s' at %s is not what it was: another disk has its number now, "
		  "or none; its requests are not sent",
		  nsid, c->nqn, c->place);
}

/* What identifies it besides. */
static int describe(struct weft_ctrl *c, uint32_t nsid, struct host_ns_ids *ids)
{
	struct weft_result r = {0};
	int err;

	if (!host_ns_has_descs(&c->host))
		return 0;
	err = identify(c, NVME_CNS_NS_DESC_LIST, nsid, ctrl_page(c), &r);
	if (!err)
		host_ns_ids_describe(ids, ctrl_page(c));
	/* A controller need not have them. */
	else if (r.status & NVME_STATUS_DNR)
		err = 0;
	return err ? tell(c, err, &r, "Identify of the namespace's descriptors") : 0;
}

/* Both by one connection, and without a change in between. */
static int identify_whole(struct weft_ctrl *c, uint32_t *nsid, struct nvme_id_ns *id,
			  struct host_ns_ids *ids)
{
	uint32_t reconnects, changes;
	int err;

	do {
		reconnects = c->host.reconnects;
		changes = c->host.ns_changes;
		err = identify_namespace(c, nsid, id);
		if (err)
			return err;
		host_ns_ids_read(ids, id);
		err = describe(c, *nsid, ids);
	} while (!err && (reconnects != c->host.reconnects || changes != c->host.ns_changes));
	return err;
}

/* From now on it has to be that. One that was looked at before has to be what it was then: what
 * goes there was meant for that. */
static int know(struct weft_ctrl *c, uint32_t nsid, const struct host_ns_ids *ids)
{
	const struct host_known_ns *before = host_ns_known(&c->host, nsid);
	struct host_known_ns *n;

	if (before && !host_ns_ids_equal(&before->ids, ids))
		return ctrl_fail(c, -ENODEV,
				 "namespace %u of '%s' at %s is not what it was: another disk has "
				 "its number now; connect anew to use that",
				 nsid, c->nqn, c->place);
	if (before)
		return 0;
	n = calloc(1, sizeof(*n));
	if (!n)
		return ctrl_fail(c, -ENOMEM, "out of memory");
	n->nsid = nsid;
	n->ids = *ids;
	host_ns_know(&c->host, n);
	return 0;
}

void namespaces_free(struct weft_ctrl *c)
{
	for (struct list *at; c->host.known.next && (at = list_pop_head(&c->host.known));)
		free(list_entry(at, struct host_known_ns, node));
}

int weft_ctrl_namespace(struct weft_ctrl *c, uint32_t nsid, struct weft_namespace *ret, size_t size)
{
	struct weft_namespace n = {0};
	struct host_namespace ns;
	struct host_ns_ids ids;
	struct nvme_id_ns id;
	const char *why;
	int err = identify_whole(c, &nsid, &id, &ids);

	if (err)
		return err;
	if (host_namespace_read(&id, nsid, &ns, &why))
		return ctrl_fail(c, -EOPNOTSUPP, "cannot use namespace %u of '%s' at %s: %s", nsid,
				 c->nqn, c->place, why);
	err = know(c, nsid, &ids);
	if (err)
		return err;
	n.nsid = nsid;
	n.block_bytes = ns.block_bytes;
	n.blocks = ns.blocks;
	n.read_only = ns.read_only;
	n.zeroes_deallocate = ns.zeroes_deallocate;
	if (id.nsfeat & NVME_NSFEAT_OPTPERF)
		n.optimal_write_blocks = id.npwg + 1u;
	/* The namespace's own, where it has one, or the controller's. */
	n.atomic_blocks = (id.nsfeat & NVME_NSFEAT_ATOMIC ? id.nawupf : c->host.id.awupf) + 1u;
	memset(ret, 0, size);
	memcpy(ret, &n, min_of(size, sizeof(n)));
	return 0;
}
