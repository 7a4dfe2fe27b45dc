/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get Log Page. A host asks for any stretch of a page; pages are made piece by piece, and what
 * falls into the stretch is kept. Bytes past the end of a page are zero, and take no memory: a host
 * may ask for far more than there is.
 */
#include "nvmf/target/internal.h"
#include "nvmf/target/window.h"

#define SQE_LID	   40
#define SQE_OFFSET 48

void window_piece(struct window *w, const void *piece, size_t len)
{
	uint64_t from = max_of(w->pos, w->offset), to = min_of(w->pos + len, w->offset + w->len);

	if (from < to)
		memcpy(w->dst + (from - w->offset), (const uint8_t *)piece + (from - w->pos),
		       to - from);
	w->pos += len;
}

static void fill_error(struct window *w, const struct target_ctrl *c)
{
	uint64_t n = min_of(c->error_count, (uint64_t)TARGET_ERRLOG_ENTRIES);
	uint8_t piece[NVME_ERROR_ENTRY_LEN];

	for (uint64_t i = 1; i <= n; i++) { /* the latest first */
		struct wcursor out = wcursor_init(piece, sizeof(piece));

		nvme_error_entry_put(&out,
				     &c->errlog[(c->error_count - i) % TARGET_ERRLOG_ENTRIES]);
		window_piece(w, piece, sizeof(piece));
	}
}

/* Units of a thousand 512-byte sectors, rounded up. */
static struct nvme_u128 data_units(uint64_t sectors)
{
	return (struct nvme_u128){.lo = sectors / 1000 + (sectors % 1000 != 0)};
}

static void fill_smart(struct window *w, const struct target_ctrl *c)
{
	uint64_t up_ns = c->subsys->target->now_ns - c->subsys->target->start_ns;
	struct nvme_smart smart = {
		.avail_spare = 100,
		.data_units_read = data_units(c->sectors_read),
		.data_units_written = data_units(c->sectors_written),
		.host_reads.lo = c->reads,
		.host_writes.lo = c->writes,
		.power_on_hours.lo = up_ns / (3600ull * 1000000000ull),
		.num_err_log_entries.lo = c->error_count,
	};
	uint8_t piece[NVME_SMART_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	nvme_smart_put(&out, &smart);
	window_piece(w, piece, sizeof(piece));
}

static void fill_firmware(struct window *w, const struct target_ctrl *c)
{
	struct nvme_firmware_log log = {.afi = 1};
	uint8_t piece[NVME_FIRMWARE_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	nvmf_pad(log.frs[0], sizeof(log.frs[0]), c->subsys->firmware);
	nvme_firmware_log_put(&out, &log);
	window_piece(w, piece, sizeof(piece));
}

static void fill_changed_ns(struct window *w, const struct target_ctrl *c)
{
	uint32_t ids[TARGET_NS_MAX], count = 0;
	uint8_t piece[NVME_NS_LIST_MAX * 4];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	for (uint32_t i = 0; i < TARGET_NS_MAX; i++)
		if (c->changed_ns[i / 32] >> i % 32 & 1)
			ids[count++] = i + 1;
	nvme_ns_list_put(&out, ids, count);
	window_piece(w, piece, sizeof(piece));
}

static void fill_effects(struct window *w, const struct target_ctrl *c)
{
	struct nvme_effects fx = {0};
	uint8_t piece[NVME_EFFECTS_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	for (unsigned i = 0; i < 256; i++) {
		fx.admin[i] = admin_effects((uint8_t)i, c->subsys->discovery);
		fx.io[i] = io_effects((uint8_t)i, c->subsys->discovery);
	}
	nvme_effects_put(&out, &fx);
	window_piece(w, piece, sizeof(piece));
}

static uint64_t page_len(const struct target_queue *q, uint8_t lid)
{
	bool discovery = q->ctrl->subsys->discovery;

	switch (lid) {
	case NVME_LID_ERROR:
		return TARGET_ERRLOG_ENTRIES * NVME_ERROR_ENTRY_LEN;
	case NVME_LID_SMART:
		return discovery ? 0 : NVME_SMART_LEN;
	case NVME_LID_FIRMWARE:
		return discovery ? 0 : NVME_FIRMWARE_LEN;
	case NVME_LID_CHANGED_NS:
		return discovery ? 0 : NVME_NS_LIST_MAX * 4;
	case NVME_LID_EFFECTS:
		return NVME_EFFECTS_LEN;
	case NVME_LID_DISCOVERY:
		return discovery ? discovery_log_len(q) : 0;
	}
	return 0;
}

static void execute_get_log(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;
	struct nvme_get_log g;
	struct window w;

	nvme_get_log_from_sqe(&g, &r->sqe);
	if (r->data_len)
		memset(r->data, 0, r->data_len);
	w = (struct window){.dst = r->data, .offset = g.offset, .len = r->data_len};
	switch (g.lid) {
	case NVME_LID_ERROR:
		fill_error(&w, c);
		break;
	case NVME_LID_SMART:
		fill_smart(&w, c);
		break;
	case NVME_LID_FIRMWARE:
		fill_firmware(&w, c);
		break;
	case NVME_LID_CHANGED_NS:
		fill_changed_ns(&w, c);
		if (!g.rae) {
			memset(c->changed_ns, 0, sizeof(c->changed_ns));
			ctrl_unmask(c, NVME_OAES_NS_ATTR);
		}
		break;
	case NVME_LID_EFFECTS:
		fill_effects(&w, c);
		break;
	case NVME_LID_DISCOVERY:
		window_discovery_log(&w, r->queue);
		if (!g.rae)
			ctrl_unmask(c, NVME_OAES_DISCOVERY);
		break;
	}
	req_complete(r, NVME_SC_SUCCESS);
}

uint16_t parse_get_log(struct target_req *r)
{
	struct nvme_get_log g;
	uint64_t len;

	nvme_get_log_from_sqe(&g, &r->sqe);
	len = page_len(r->queue, g.lid);
	if (!len)
		return req_fail_at(r, SQE_LID, FAIL(NVME_SC_INVALID_LOG_PAGE));
	/* The discovery log may have become shorter since the host saw how long it is. */
	if (g.ot || g.offset & 3 || (g.offset >= len && g.lid != NVME_LID_DISCOVERY))
		return req_fail_at(r, SQE_OFFSET, FAIL(NVME_SC_INVALID_FIELD));
	/* SMART is of the whole controller: LPA bit 0 is clear. */
	if (g.lid == NVME_LID_SMART && r->sqe.nsid != 0 && r->sqe.nsid != NVME_NSID_ALL)
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_FIELD));
	if (g.len > TARGET_DATA_MAX)
		return req_fail_at(r, SQE_LID, FAIL(NVME_SC_INVALID_FIELD));
	r->execute = execute_get_log;
	return req_expects_part(r, (uint32_t)g.len, g.offset < len ? len - g.offset : 0);
}
