/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a namespace that is known is still the same disk. Behind the ID that it had may be
 * another one after a reconnect, or after an event that tells of changes: one that is new in a
 * target that began anew, or what was put in its place. It is looked at before waiting requests
 * go, and again with each event: one namespace after the other, whether it is active, then Identify
 * Namespace (block format, NGUID, EUI-64) and its identification descriptors (UUID), which came
 * with version 1.3. Of one that is not active nothing more is asked: for each command to a
 * namespace that is disabled nvmet (6.1 to 6.12) keeps a reference, and can never remove it again.
 *
 * Its size may be another: that is a resize, and the controller's to judge.
 */
#include <errno.h>
#include <string.h>

#include "nvmf/host/commands.h"
#include "nvmf/host/internal.h"
#include "wire/nvme_log.h"

/* Behind what brings queues up and authenticates them. */
static uint8_t *page_of(const struct host *h)
{
	return h->scratch + HOST_SCRATCH_LEN - NVME_IDENTIFY_LEN;
}
_Static_assert(HOST_SCRATCH_LEN >= 2 * NVME_IDENTIFY_LEN, "a page of its own");

/* --- what identifies one ---------------------------------------------------------------------- */

void host_ns_ids_read(struct host_ns_ids *ret, const struct nvme_id_ns *id)
{
	const struct nvme_lbaf *format = NVME_ID_NS_LBAF(id);

	*ret = (struct host_ns_ids){.block_shift = format->ds, .metadata = format->ms};
	memcpy(ret->nguid, id->nguid, sizeof(ret->nguid));
	memcpy(ret->eui64, id->eui64, sizeof(ret->eui64));
}

void host_ns_ids_describe(struct host_ns_ids *ids, const void *page)
{
	struct cursor c = cursor_init(page, NVME_IDENTIFY_LEN);
	struct nvme_ns_desc d;

	while (nvme_ns_desc_get(&c, &d) == 1) {
		if (d.nidt == NVME_NIDT_UUID && d.nidl == sizeof(ids->uuid))
			memcpy(ids->uuid, d.nid, sizeof(ids->uuid));
		else if (d.nidt == NVME_NIDT_NGUID && d.nidl == sizeof(ids->nguid))
			memcpy(ids->nguid, d.nid, sizeof(ids->nguid));
		else if (d.nidt == NVME_NIDT_EUI64 && d.nidl == sizeof(ids->eui64))
			memcpy(ids->eui64, d.nid, sizeof(ids->eui64));
	}
}

bool host_ns_ids_equal(const struct host_ns_ids *a, const struct host_ns_ids *b)
{
	return a->block_shift == b->block_shift && a->metadata == b->metadata &&
	       memcmp(a->nguid, b->nguid, sizeof(a->nguid)) == 0 &&
	       memcmp(a->eui64, b->eui64, sizeof(a->eui64)) == 0 &&
	       memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

bool host_ns_has_descs(const struct host *h)
{
	return h->vs >= NVME_VS(1, 3, 0);
}

/* --- those that are known --------------------------------------------------------------------- */

void host_ns_know(struct host *h, struct host_known_ns *n)
{
	n->lost = false;
	list_push_tail(&h->known, &n->node);
}

struct host_known_ns *host_ns_known(const struct host *h, uint32_t nsid)
{
	list_for_each(n, &h->known, struct host_known_ns, node)
		if (n->nsid == nsid)
			return n;
	return NULL;
}

bool namespaces_lost(const struct host *h, const struct nvme_sqe *sqe)
{
	const struct host_known_ns *n;

	if (!h->lost_namespaces || sqe->opcode == NVME_FABRICS)
		return false;
	n = host_ns_known(h, sqe->nsid);
	return n && n->lost;
}

/* What still waits was meant for another disk. */
static void end_waiting(struct host *h, uint64_t now_ns)
{
	struct list ended, *at;

	list_init(&ended);
	for (uint16_t i = 1; i <= h->config.io_queues; i++)
		list_for_each(req, &h->queues[i].wait, struct host_request, node)
			if (req != &h->queues[i].own && namespaces_lost(h, &req->sqe)) {
				list_remove(&req->node);
				list_push_tail(&ended, &req->node);
			}
	while ((at = list_pop_head(&ended))) {
		struct host_request *req = list_entry(at, struct host_request, node);

		req->error = -ENODEV;
		req->done(req, now_ns);
	}
}

static void judge(struct host *h, bool lost, uint64_t now_ns)
{
	struct host_known_ns *n = h->look.at;
	bool was = n->lost;

	n->lost = lost;
	h->lost_namespaces = 0;
	list_for_each(k, &h->known, struct host_known_ns, node)
		h->lost_namespaces += k->lost;
	host_set_ready(h);
	if (!lost)
		return;
	if (!was && h->config.namespace_lost)
		h->config.namespace_lost(h->config.arg, n->nsid);
	end_waiting(h, now_ns);
}

/* --- looking ---------------------------------------------------------------------------------- */

static void begin(struct host *h, uint64_t now_ns);

static void send_identify(struct host *h, enum nvme_cns cns, uint32_t nsid, uint64_t now_ns)
{
	struct host_request *req = &h->look.request;

	req->sqe = (struct nvme_sqe){.opcode = NVME_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns};
	req->dir = NVMF_DIR_TO_HOST;
	req->data = page_of(h);
	req->data_len = NVME_IDENTIFY_LEN;
	queue_push_own(h, 0, req, now_ns);
}

/* From that one on. */
static void look_on(struct host *h, struct list *at, uint64_t now_ns)
{
	if (at != &h->known) {
		h->look.at = list_entry(at, struct host_known_ns, node);
		/* Those behind the one before: it is the first of them, or not there. */
		send_identify(h, NVME_CNS_ACTIVE_NS_LIST, h->look.at->nsid - 1, now_ns);
	} else if (h->look.again) {
		begin(h, now_ns);
	} else {
		h->look.out = false;
		if (h->look.ended)
			h->look.ended(h, now_ns);
	}
}

/*
 * The namespace is there and not to be reached by this controller, which refuses I/O in the same
 * way, and tells when that changes. The others are not to wait for it, so it stays what it was.
 */
static bool is_out_of_reach(uint16_t code)
{
	return (code & NVME_STATUS_SCT) == NVME_SCT_PATH;
}

/*
 * True: it says what there is. One that cannot be looked at now may be another: nothing goes there
 * until it could be.
 */
static bool answer_counts(struct host *h, const struct host_request *req)
{
	uint16_t code = req->cqe.status & NVME_STATUS_CODE;

	if (code && code != NVME_SC_INVALID_NS && !(req->cqe.status & NVME_STATUS_DNR)) {
		host_refused(h, 0, req);
		return false;
	}
	return true;
}

static void answered(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;
	uint16_t code = req->cqe.status & NVME_STATUS_CODE;
	struct cursor c = cursor_init(page_of(h), NVME_IDENTIFY_LEN);
	struct nvme_id_ns id;

	/* It is being shut down. */
	if (h->state != HOST_LIVE && h->state != HOST_NAMESPACES) {
		h->look.out = false;
		return;
	}
	if (req->sqe.opcode == NVME_ADMIN_GET_LOG_PAGE) {
		look_on(h, h->known.next, now_ns);
		return;
	}
	if (is_out_of_reach(code)) {
		look_on(h, h->look.at->node.next, now_ns);
		return;
	}
	if (!answer_counts(h, req))
		return;
	if (req->sqe.cdw10 == NVME_CNS_ACTIVE_NS_LIST &&
	    (code || cursor_le32(&c) == h->look.at->nsid)) {
		send_identify(h, NVME_CNS_NS, h->look.at->nsid, now_ns);
		return;
	}
	if (req->sqe.cdw10 == NVME_CNS_NS && !code) {
		nvme_id_ns_get(&c, &id);
		host_ns_ids_read(&h->look.ids, &id);
		if (host_ns_has_descs(h)) {
			send_identify(h, NVME_CNS_NS_DESC_LIST, h->look.at->nsid, now_ns);
			return;
		}
	}
	/* A controller need not have descriptors; a namespace that is not there has none. */
	if (req->sqe.cdw10 == NVME_CNS_NS_DESC_LIST && !code)
		host_ns_ids_describe(&h->look.ids, page_of(h));
	judge(h,
	      req->sqe.cdw10 == NVME_CNS_ACTIVE_NS_LIST || code == NVME_SC_INVALID_NS ||
		      (code && req->sqe.cdw10 == NVME_CNS_NS) ||
		      !host_ns_ids_equal(&h->look.at->ids, &h->look.ids),
	      now_ns);
	look_on(h, h->look.at->node.next, now_ns);
}

/* By a new connection there is no event yet. */
void namespaces_look(struct host *h, void (*ended)(struct host *h, uint64_t now_ns),
		     uint64_t now_ns)
{
	h->look.request = (struct host_request){.done = answered, .arg = h};
	h->look.ended = ended;
	h->look.out = true;
	h->look.again = false;
	look_on(h, h->known.next, now_ns);
}

/* The log first: it is by reading that the next event may come, which is of what changes from then
 * on. Which namespaces it names makes no difference, as few are known. */
static void begin(struct host *h, uint64_t now_ns)
{
	struct host_request *req = &h->look.request;

	h->look.again = false;
	if (h->config.reads_changes) {
		look_on(h, h->known.next, now_ns);
		return;
	}
	host_prepare_get_log(req, NVME_LID_CHANGED_NS, 0, page_of(h), NVME_NS_LIST_MAX * 4);
	req->sqe.nsid = NVME_NSID_ALL;
	req->sqe.cdw10 &= ~NVME_GET_LOG_RAE;
	queue_push_own(h, 0, req, now_ns);
}

/* Where none is known yet the log is read all the same: the controller tells of no other change
 * until it was, and one may be known by then. */
void namespaces_changed(struct host *h, uint64_t now_ns)
{
	h->ns_changes++;
	if (h->look.out) {
		h->look.again = true;
		return;
	}
	h->look.request = (struct host_request){.done = answered, .arg = h};
	h->look.ended = NULL;
	h->look.out = true;
	begin(h, now_ns);
}
