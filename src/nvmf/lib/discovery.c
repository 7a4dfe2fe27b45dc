/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/host/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "nvmf/lib/internal.h"

enum { RECORDS_FIRST = 64 };

struct weft_discovery {
	struct host_discovery d;
	bool done;
};

_Static_assert(DISCOVERY_BUFFER_LEN <= NVME_IDENTIFY_LEN, "it is read by the library's page");

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	struct weft_discovery *w = d->arg;

	(void)now_ns;
	w->done = true;
}

static int tell(struct weft_ctrl *c, const struct host_discovery *d)
{
	char text[128];

	switch (d->error) {
	case -EIO:
		return ctrl_fail(
			c, status_errno(d->request.cqe.status, false),
			"reading the discovery log at %s: %s", c->place,
			weft_status_text(d->request.cqe.status, false, text, sizeof(text)));
	case -EAGAIN:
		return ctrl_fail(c, d->error,
				 "the discovery log of %s changes faster than it can be read; try "
				 "again",
				 c->place);
	case -EMSGSIZE:
		return ctrl_fail(c, d->error,
				 "the discovery log of %s claims %llu records; that is beyond "
				 "reason",
				 c->place, (unsigned long long)d->header.numrec);
	case -EPROTO:
		return ctrl_fail(c, d->error,
				 "the discovery log of %s has record format %u; 0 is known",
				 c->place, d->header.recfmt);
	default:
		/* Why a connection ended is said. */
		if (!ctrl_ended(c) || !c->error[0])
			ctrl_fail(c, d->error, "reading the discovery log of %s: %s", c->place,
				  strerror(-d->error));
		return d->error;
	}
}

/* With room for as many entries as it takes. */
static int read_log(struct weft_ctrl *c, struct weft_discovery *w)
{
	struct host_discovery *d = &w->d;
	int err;

	d->buffer = ctrl_page(c);
	d->done = discovered;
	d->arg = w;
	for (uint64_t room = RECORDS_FIRST;; room = d->header.numrec) {
		free(d->entries);
		d->entries = calloc(room, sizeof(*d->entries));
		if (!d->entries)
			return ctrl_fail(c, -ENOMEM, "out of memory for %llu records",
					 (unsigned long long)room);
		d->max = (uint32_t)room;
		w->done = false;
		err = host_discovery_start(d, &c->host, time_now_ns());
		if (err)
			return ctrl_fail(c, err, "reading the discovery log of %s: %s", c->place,
					 strerror(-err));
		err = group_wait_for(c, &w->done);
		if (err)
			return ctrl_fail(c, err, "reading the discovery log of %s: %s", c->place,
					 strerror(-err));
		if (d->error != -E2BIG)
			return d->error ? tell(c, d) : 0;
	}
}

int weft_discovery_read(struct weft_ctrl *c, struct weft_discovery **ret)
{
	struct weft_discovery *w;
	int err;

	if (c->group->depth)
		return -EBUSY;
	w = calloc(1, sizeof(*w));
	if (!w)
		return ctrl_fail(c, -ENOMEM, "out of memory");
	err = read_log(c, w);
	if (err)
		weft_discovery_free(w);
	else
		*ret = w;
	return err;
}

void weft_discovery_free(struct weft_discovery *d)
{
	if (!d)
		return;
	free(d->d.entries);
	free(d);
}

uint64_t weft_discovery_generation(const struct weft_discovery *d)
{
	return d->d.header.genctr;
}

unsigned int weft_discovery_count(const struct weft_discovery *d)
{
	return d->d.count;
}

/* A field without its padding, fit to be shown. */
static void plain(char *ret, const char *field, size_t room)
{
	nvmf_unpad(ret, field, room);
	text_tame(ret);
}

int weft_discovery_entry(const struct weft_discovery *d, unsigned int index,
			 struct weft_discovery_entry *ret, size_t size)
{
	const struct nvmf_disc_entry *e;
	struct weft_discovery_entry out;

	if (index >= d->d.count)
		return -ENOENT;
	e = &d->d.entries[index];
	out = (struct weft_discovery_entry){
		.trtype = e->trtype,
		.adrfam = e->adrfam,
		.subtype = e->subtype,
		.treq = e->treq,
		.portid = e->portid,
		.cntlid = e->cntlid,
		.asqsz = e->asqsz,
		.eflags = e->eflags,
	};
	plain(out.trsvcid, e->trsvcid, sizeof(e->trsvcid));
	plain(out.traddr, e->traddr, sizeof(e->traddr));
	plain(out.subnqn, e->subnqn, sizeof(e->subnqn));
	memcpy(out.tsas, e->tsas, sizeof(out.tsas));
	memset(ret, 0, size);
	memcpy(ret, &out, min_of(size, sizeof(out)));
	return 0;
}

int weft_discovery_uri(const struct weft_discovery *d, unsigned int index, char *uri, size_t room)
{
	struct weft_discovery_entry e;
	struct nvme_uri u = {0};

	if (weft_discovery_entry(d, index, &e, sizeof(e)))
		return -ENOENT;
	if (e.trtype != NVMF_TRTYPE_RDMA && e.trtype != NVMF_TRTYPE_TCP)
		return -EOPNOTSUPP;
	/* Where it is not required, who has no key does without. */
	u.tls = e.trtype == NVMF_TRTYPE_TCP && e.tsas[0] == NVMF_SECTYPE_TLS13 &&
		(e.treq & NVMF_TREQ_SECURE_MASK) != NVMF_TREQ_NOT_REQUIRED;
	strcpy(u.transport, e.trtype == NVMF_TRTYPE_RDMA ? "rdma" : "tcp");
	snprintf(u.host, sizeof(u.host), "%.255s", e.traddr);
	snprintf(u.port, sizeof(u.port), "%.7s", e.trsvcid);
	snprintf(u.nqn, sizeof(u.nqn), "%.223s", e.subnqn);
	return nvme_uri_format(&u, uri, room);
}

size_t weft_discovery_bytes(const struct weft_discovery *d, void *buf, size_t room)
{
	size_t len = NVMF_DISC_HDR_LEN + (size_t)d->d.count * NVMF_DISC_ENTRY_LEN, at = 0;
	uint8_t bytes[NVMF_DISC_HDR_LEN];

	_Static_assert(NVMF_DISC_HDR_LEN == NVMF_DISC_ENTRY_LEN, "header and entries are as long");
	for (uint32_t i = 0; at < room && at < len; i++, at += sizeof(bytes)) {
		struct wcursor w = wcursor_init(bytes, sizeof(bytes));

		if (i == 0)
			nvmf_disc_hdr_put(&w, &d->d.header);
		else
			nvmf_disc_entry_put(&w, &d->d.entries[i - 1]);
		memcpy((uint8_t *)buf + at, bytes, min_of(room - at, sizeof(bytes)));
	}
	return len;
}
