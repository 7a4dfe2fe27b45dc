/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <string.h>

#include "nvmf/host/commands.h"
#include "nvmf/host/discovery.h"
#include "wire/nvme_log.h"

/* noted: the event that the log has changed is dealt with, and may come again. */
static int read_log(struct host_discovery *d, uint64_t offset, uint32_t len, bool noted,
		    uint64_t now_ns)
{
	host_prepare_get_log(&d->request, NVME_LID_DISCOVERY, offset, d->buffer, len);
	if (noted)
		d->request.sqe.cdw10 &= ~NVME_GET_LOG_RAE;
	return host_submit(d->host, 0, &d->request, now_ns);
}

static int read_header(struct host_discovery *d, bool closing, uint64_t now_ns)
{
	d->closing = closing;
	d->pending = 0;
	/* What changes from here on is told anew, or seen by the generation counter. */
	return read_log(d, 0, NVMF_DISC_HDR_LEN, true, now_ns);
}

static int read_entries(struct host_discovery *d, uint64_t now_ns)
{
	uint32_t left = (uint32_t)d->header.numrec - d->count;

	if (left == 0)
		return read_header(d, true, now_ns);
	d->pending = min_of(left, (uint32_t)DISCOVERY_BUFFER_LEN / NVMF_DISC_ENTRY_LEN);
	return read_log(d, NVMF_DISC_HDR_LEN + (uint64_t)d->count * NVMF_DISC_ENTRY_LEN,
			d->pending * NVMF_DISC_ENTRY_LEN, false, now_ns);
}

/* The next read, or what the reading ends with: 1 for success, -errno. */
static int take_header(struct host_discovery *d, uint64_t now_ns)
{
	struct cursor c = cursor_init(d->buffer, NVMF_DISC_HDR_LEN);
	struct nvmf_disc_hdr header;

	nvmf_disc_hdr_get(&c, &header);
	if (d->closing && header.genctr == d->header.genctr && header.numrec == d->header.numrec)
		return 1;
	if (++d->rounds > DISCOVERY_ROUNDS_MAX)
		return -EAGAIN;
	d->header = header;
	d->count = 0;
	if (header.recfmt != 0)
		return -EPROTO;
	if (header.numrec > DISCOVERY_RECORDS_MAX)
		return -EMSGSIZE;
	if (header.numrec > d->max)
		return -E2BIG;
	/* Nothing to read means nothing that can change meanwhile. */
	return header.numrec ? read_entries(d, now_ns) : 1;
}

static int take_entries(struct host_discovery *d, uint64_t now_ns)
{
	struct cursor c = cursor_init(d->buffer, DISCOVERY_BUFFER_LEN);

	for (; d->pending; d->pending--)
		nvmf_disc_entry_get(&c, &d->entries[d->count++]);
	return read_entries(d, now_ns);
}

static void answered(struct host_request *req, uint64_t now_ns)
{
	struct host_discovery *d = req->arg;
	int r;

	if (req->error)
		r = req->error;
	else if (req->cqe.status & NVME_STATUS_CODE)
		r = -EIO;
	else if (d->pending)
		r = take_entries(d, now_ns);
	else
		r = take_header(d, now_ns);
	if (r == 0)
		return;
	d->error = r < 0 ? r : 0;
	d->done(d, now_ns);
}

int host_discovery_start(struct host_discovery *d, struct host *h, uint64_t now_ns)
{
	d->host = h;
	d->error = 0;
	d->count = 0;
	d->rounds = 0;
	d->header = (struct nvmf_disc_hdr){0};
	d->request = (struct host_request){.done = answered, .arg = d, .again = true};
	return read_header(d, false, now_ns);
}
