/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get Log Page. A host asks for any stretch of a page; pages are made piece by piece, and what
 * falls into the stretch is kept. Bytes past the end of a page are zero, and take no memory: a host
 * may ask for far more than there is.
 */
#include "nvmf/target/internal.h"
#include "nvmf/target/log_page.h"

#define SQE_LID	   40
#define SQE_OFFSET 48

static void fill_error(struct log_page *l, const struct target_ctrl *c)
{
	uint64_t n = min_of(c->error_count, (uint64_t)TARGET_ERRLOG_ENTRIES);
	uint8_t piece[NVME_ERROR_ENTRY_LEN];

	for (uint64_t i = 1; i <= n; i++) { /* the latest first */
		struct wcursor out = wcursor_init(piece, sizeof(piece));

		nvme_error_entry_put(&out,
				     &c->errlog[(c->error_count - i) % TARGET_ERRLOG_ENTRIES]);
		log_page_piece(l, piece, sizeof(piece));
	}
}

/* Units of a thousand 512-byte sectors, rounded up. */
static struct nvme_u128 data_units(uint64_t sectors)
{
	return (struct nvme_u128){.lo = sectors / 1000 + (sectors % 1000 != 0)};
}

/*
 * Power on is the service's start. What was done is the subsystem's, by all controllers that it
 * had, as with Linux's target: who asks has often just got his own. How busy it was and the errors
 * that its log has are this one's.
 */
static void fill_smart(struct log_page *l, const struct target_ctrl *c)
{
	const struct target *t = c->subsys->target;
	uint64_t up_ns = t->group.now_ns - t->start_ns;
	struct target_counts n, own;
	struct nvme_smart smart = {
		.avail_spare = 100,
		.power_cycles.lo = 1,
		.power_on_hours.lo = up_ns / (3600 * NSEC_PER_SEC),
		.unsafe_shutdowns.lo = c->subsys->unsafe_shutdowns,
		.media_errors.lo = c->subsys->media_errors,
		.num_err_log_entries.lo = c->error_count,
	};
	uint8_t piece[NVME_SMART_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	subsys_counts(c->subsys, &n);
	ctrl_counts(c, &own);
	smart.data_units_read = data_units(count_get(&n.sectors_read));
	smart.data_units_written = data_units(count_get(&n.sectors_written));
	smart.host_reads.lo = count_get(&n.reads);
	smart.host_writes.lo = count_get(&n.writes);
	smart.ctrl_busy_time.lo = count_get(&own.busy_ns) / (60 * NSEC_PER_SEC);
	nvme_smart_put(&out, &smart);
	log_page_piece(l, piece, sizeof(piece));
}

static void fill_firmware(struct log_page *l, const struct target_ctrl *c)
{
	struct nvme_firmware_log log = {.afi = 1};
	uint8_t piece[NVME_FIRMWARE_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	nvmf_pad(log.frs[0], sizeof(log.frs[0]), c->subsys->firmware);
	nvme_firmware_log_put(&out, &log);
	log_page_piece(l, piece, sizeof(piece));
}

static void fill_changed_ns(struct log_page *l, const struct target_ctrl *c)
{
	uint32_t ids[TARGET_NS_MAX], count = 0;
	uint8_t piece[NVME_NS_LIST_MAX * 4];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	for (uint32_t i = 0; i < TARGET_NS_MAX; i++)
		if (c->changed_ns[i / 32] >> i % 32 & 1)
			ids[count++] = i + 1;
	nvme_ns_list_put(&out, ids, count);
	log_page_piece(l, piece, sizeof(piece));
}

static void fill_effects(struct log_page *l, const struct target_ctrl *c)
{
	bool discovery = c->subsys->discovery;
	struct nvme_effects fx = {0};
	uint8_t piece[NVME_EFFECTS_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

#define ADMIN(opcode, parse, on_discovery) \
	fx.admin[opcode] = (on_discovery) || !discovery ? NVME_EFFECT_CSUPP : 0;
#define IO(opcode, parse, effects) fx.io[opcode] = discovery ? 0 : (effects);
#include "nvmf/target/commands.def"
	nvme_effects_put(&out, &fx);
	log_page_piece(l, piece, sizeof(piece));
}

static void fill_features(struct log_page *l, const struct target_ctrl *c)
{
	uint8_t piece[NVME_FEATURES_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));
	uint32_t words[256] = {0};

	features_supported(c, words);
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		wcursor_le32(&out, words[i]);
	log_page_piece(l, piece, sizeof(piece));
}

static void fill_supported(struct log_page *l, const struct target_ctrl *c);

/* --- the pages -------------------------------------------------------------------------------- */

enum { OF_DISCOVERY = 1, OF_IO = 2, OF_ALL = 3 };

struct page {
	uint8_t of; /* which controllers have it */
	uint32_t len;
	void (*fill)(struct log_page *l, const struct target_ctrl *c);
	uint32_t event; /* that has its cause in it: one bit of OAES */
};

static const struct page pages[256] = {
	[NVME_LID_SUPPORTED] = {OF_ALL, NVME_SUPPORTED_LEN, fill_supported, 0},
	[NVME_LID_ERROR] = {OF_ALL, TARGET_ERRLOG_ENTRIES *NVME_ERROR_ENTRY_LEN, fill_error, 0},
	[NVME_LID_SMART] = {OF_IO, NVME_SMART_LEN, fill_smart, 0},
	[NVME_LID_FIRMWARE] = {OF_IO, NVME_FIRMWARE_LEN, fill_firmware, 0},
	[NVME_LID_CHANGED_NS] = {OF_IO, NVME_NS_LIST_MAX * 4, fill_changed_ns, NVME_OAES_NS_ATTR},
	[NVME_LID_EFFECTS] = {OF_ALL, NVME_EFFECTS_LEN, fill_effects, 0},
	[NVME_LID_FEATURE_EFFECTS] = {OF_ALL, NVME_FEATURES_LEN, fill_features, 0},
	[NVME_LID_DISCOVERY] = {OF_DISCOVERY, 0, NULL, NVME_OAES_DISCOVERY},
};

static bool has_page(const struct target_ctrl *c, uint8_t lid)
{
	return pages[lid].of & (c->subsys->discovery ? OF_DISCOVERY : OF_IO);
}

static void fill_supported(struct log_page *l, const struct target_ctrl *c)
{
	struct nvme_supported_logs logs = {0};
	uint8_t piece[NVME_SUPPORTED_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	for (unsigned int i = 0; i < ARRAY_SIZE(pages); i++)
		if (has_page(c, (uint8_t)i))
			logs.lid[i] = NVME_LID_SUPPORTED_LSUPP |
				      (i == NVME_LID_DISCOVERY ? NVME_LID_DISCOVERY_PLEOS : 0);
	nvme_supported_logs_put(&out, &logs);
	log_page_piece(l, piece, sizeof(piece));
}

/* Of the discovery log: of the port that is asked alone. */
static bool is_local(const struct nvme_get_log *g)
{
	return g->lsp & NVME_LSP_DISCOVERY_PLEO;
}

/* 0: there is no such page. */
static uint64_t page_len(const struct target_queue *q, const struct nvme_get_log *g)
{
	if (!has_page(q->ctrl, g->lid))
		return 0;
	return g->lid == NVME_LID_DISCOVERY ? discovery_log_len(q, is_local(g)) : pages[g->lid].len;
}

static void execute_get_log(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;
	const struct page *p;
	struct nvme_get_log g;
	struct log_page l;

	nvme_get_log_from_sqe(&g, &r->sqe);
	p = &pages[g.lid];
	if (r->data_len)
		memset(r->data, 0, r->data_len);
	l = (struct log_page){.dst = r->data, .offset = g.offset, .len = r->data_len};
	if (g.lid == NVME_LID_DISCOVERY) {
		discovery_look(c->subsys->target);
		log_page_discovery(&l, r->queue, is_local(&g));
	} else {
		p->fill(&l, c);
	}
	if (p->event && !g.rae)
		ctrl_event_read(c, p->event);
	req_complete(r, NVME_SC_SUCCESS);
}

uint16_t parse_get_log(struct target_req *r)
{
	struct nvme_get_log g;
	uint64_t len;

	nvme_get_log_from_sqe(&g, &r->sqe);
	len = page_len(r->queue, &g);
	if (!len)
		return req_fail_at(r, SQE_LID, FAIL(NVME_SC_INVALID_LOG_PAGE));
	/* The discovery log may have become shorter since the host saw how long it is. */
	if (g.ot || g.offset & 3 || (g.offset >= len && g.lid != NVME_LID_DISCOVERY))
		return req_fail_at(r, SQE_OFFSET, FAIL(NVME_SC_INVALID_FIELD));
	/* SMART is of the whole controller: LPA bit 0 is clear. */
	if (g.lid == NVME_LID_SMART && r->sqe.nsid != 0 && r->sqe.nsid != NVME_NSID_ALL)
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_FIELD));
	/* Of command sets there is one. */
	if (g.lid == NVME_LID_EFFECTS && g.csi != NVME_CSI_NVM)
		return req_fail_at(r, SQE_LID, FAIL(NVME_SC_INVALID_FIELD));
	if (g.len > data_max(r->queue))
		return req_fail_at(r, SQE_LID, FAIL(NVME_SC_INVALID_FIELD));
	r->execute = execute_get_log;
	return req_expects_part(r, (uint32_t)g.len, g.offset < len ? len - g.offset : 0);
}
