/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NVMe codecs against what Linux's nvme-rdma and nvmet-rdma said to each other: capsules, CM
 * private data and the structures that went by RDMA are decoded and encode to the same bytes.
 * Argument: a pcap file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "nvmf/common/command.h"
#include "roce_pcap.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_log.h"
#include "wire/nvme_rdma.h"

#define MESSAGE_MAX (256 * 1024)

static struct roce_packets captured;

/* What was checked, so that the test cannot pass by having seen nothing. */
static struct {
	unsigned sqe, cqe, connect, property, in_capsule, req, rep, connect_data;
	unsigned id_ctrl, id_ns, ns_list, ns_descs, effects, smart, disc_entry, dsm;
} seen;

static uint8_t out[MESSAGE_MAX];
static const struct roce_packet *where;

#define same(what, bytes, len)                                                              \
	do {                                                                                \
		if (memcmp(out, bytes, len) != 0) {                                         \
			print_error("%s: frame %d: %s\n", where->file, where->frame, what); \
			assert_memory_equal(out, bytes, len);                               \
		}                                                                           \
	} while (0)

#define round_trip(prefix, bytes, len, ret)                 \
	do {                                                \
		struct cursor c_ = cursor_init(bytes, len); \
		struct wcursor w_ = wcursor_init(out, len); \
                                                            \
		prefix##_get(&c_, ret);                     \
		assert_false(c_.overrun);                   \
		assert_int_equal(cursor_left(&c_), 0);      \
		prefix##_put(&w_, ret);                     \
		assert_false(w_.overrun);                   \
		assert_ptr_equal(w_.p, w_.end);             \
		same(#prefix, bytes, len);                  \
	} while (0)

/* --- commands whose data comes later ------------------------------------------------------------
 */

struct expected {
	struct nvme_sqe sqe;
	uint64_t addr;
	uint32_t key;
};

static struct expected expected[256];
static unsigned expected_next;

static const struct nvme_sqe *find_expected(uint64_t addr, uint32_t key)
{
	for (unsigned i = 1; i <= ARRAY_SIZE(expected); i++) { /* the latest first */
		const struct expected *e = &expected[(expected_next - i) % ARRAY_SIZE(expected)];

		if (e->addr == addr && e->key == key)
			return &e->sqe;
	}
	return NULL;
}

/* --- structures ---------------------------------------------------------------------------------
 */

static void on_ns_descs(const uint8_t *p)
{
	struct cursor c = cursor_init(p, NVME_IDENTIFY_LEN);
	struct wcursor w = wcursor_init(out, NVME_IDENTIFY_LEN);
	struct nvme_ns_desc d;

	while (nvme_ns_desc_get(&c, &d) == 1)
		nvme_ns_desc_put(&w, d.nidt, d.nid, d.nidl);
	assert_false(c.overrun);
	wcursor_zero(&w, (size_t)(w.end - w.p));
	same("namespace descriptors", p, NVME_IDENTIFY_LEN);
	seen.ns_descs++;
}

static void on_ns_list(const uint8_t *p)
{
	struct cursor c = cursor_init(p, 4096);
	struct wcursor w = wcursor_init(out, 4096);
	uint32_t ids[NVME_NS_LIST_MAX];

	nvme_ns_list_put(&w, ids, nvme_ns_list_get(&c, ids, NVME_NS_LIST_MAX));
	same("namespace list", p, 4096);
	seen.ns_list++;
}

static void on_identify(uint8_t cns, const uint8_t *p)
{
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ns ns;

	switch (cns) {
	case NVME_CNS_CTRL:
		round_trip(nvme_id_ctrl, p, NVME_IDENTIFY_LEN, &ctrl);
		assert_int_equal(strncmp(ctrl.subnqn, "nqn.20", 6), 0);
		seen.id_ctrl++;
		break;
	case NVME_CNS_NS:
		round_trip(nvme_id_ns, p, NVME_IDENTIFY_LEN, &ns);
		assert_int_equal(NVME_ID_NS_LBAF(&ns)->ds, 9);
		seen.id_ns++;
		break;
	case NVME_CNS_ACTIVE_NS_LIST:
		on_ns_list(p);
		break;
	case NVME_CNS_NS_DESC_LIST:
		on_ns_descs(p);
		break;
	}
}

static void on_discovery(const uint8_t *p, size_t len)
{
	struct nvmf_disc_hdr hdr;
	struct nvmf_disc_entry e;

	round_trip(nvmf_disc_hdr, p, NVMF_DISC_HDR_LEN, &hdr);
	for (size_t at = NVMF_DISC_HDR_LEN; at + NVMF_DISC_ENTRY_LEN <= len;
	     at += NVMF_DISC_ENTRY_LEN) {
		round_trip(nvmf_disc_entry, p + at, NVMF_DISC_ENTRY_LEN, &e);
		assert_int_equal(e.trtype, NVMF_TRTYPE_RDMA);
		seen.disc_entry++;
	}
}

static void on_log(const struct nvme_sqe *s, const uint8_t *p, size_t len)
{
	static struct nvme_effects effects;
	struct nvme_get_log g;
	struct nvme_smart smart;

	nvme_get_log_from_sqe(&g, s);
	assert_int_equal(g.len, len);
	if (g.lid == NVME_LID_DISCOVERY) {
		on_discovery(p, len);
	} else if (g.lid == NVME_LID_EFFECTS) {
		round_trip(nvme_effects, p, NVME_EFFECTS_LEN, &effects);
		seen.effects++;
	} else if (g.lid == NVME_LID_SMART) {
		round_trip(nvme_smart, p, NVME_SMART_LEN, &smart);
		seen.smart++;
	}
}

/* Data that an RDMA WRITE brought to the place a command named. */
static void on_data(uint64_t addr, uint32_t key, const uint8_t *p, size_t len)
{
	const struct nvme_sqe *s = find_expected(addr, key);

	if (!s) /* of a queue whose commands are older than the capture */
		return;
	assert_int_equal(s->sgl.len, len);
	if (s->opcode == NVME_ADMIN_IDENTIFY && len == NVME_IDENTIFY_LEN)
		on_identify((uint8_t)s->cdw10, p);
	else if (s->opcode == NVME_ADMIN_GET_LOG_PAGE && s->cdw11 <= 0xffff &&
		 nvmf_dir_of(s) == NVMF_DIR_TO_HOST && s->nsid != 1)
		on_log(s, p, len);
}

static void on_connect_data(const uint8_t *p)
{
	struct nvmf_connect_data d;

	round_trip(nvmf_connect_data, p, NVMF_CONNECT_DATA_LEN, &d);
	assert_true(nvmf_nqn_valid(d.subnqn, sizeof(d.subnqn)));
	assert_true(nvmf_nqn_valid(d.hostnqn, sizeof(d.hostnqn)));
	seen.connect_data++;
}

/* --- capsules -----------------------------------------------------------------------------------
 */

static void check_views(const struct nvme_sqe *s)
{
	struct nvme_sqe again = *s;
	struct nvmf_connect co;
	struct nvmf_prop prop;

	if (s->opcode != NVME_FABRICS)
		return;
	again.opcode = 0, again.nsid = 0;
	again.cdw10 = again.cdw11 = again.cdw12 = again.cdw13 = 0;
	if (nvmf_fctype(s) == NVMF_CONNECT) {
		nvmf_connect_from_sqe(&co, s);
		nvmf_connect_to_sqe(&co, &again);
		seen.connect++;
	} else {
		nvmf_prop_from_sqe(&prop, s);
		nvmf_prop_to_sqe(&prop, nvmf_fctype(s), &again);
		seen.property++;
	}
	assert_memory_equal(&again, s, sizeof(again));
}

static void on_command(uint8_t *p, size_t len)
{
	struct nvme_dsm_range range;
	struct nvme_sqe s;

	/*
	 * Linux leaves the key of the command that had the place before in the reserved bytes of
	 * an offset descriptor. We send zeroes.
	 */
	if (p[39] >> 4 == NVME_SGL_DATA_BLOCK)
		memset(p + 36, 0, 3);
	round_trip(nvme_sqe, p, NVME_SQE_LEN, &s);
	check_views(&s);
	seen.sqe++;
	if (s.sgl.type == NVME_SGL_DATA_BLOCK) {
		assert_int_equal(s.sgl.subtype, NVME_SGL_OFFSET);
		assert_int_equal(s.sgl.len, len - NVME_SQE_LEN);
		seen.in_capsule++;
		if (s.opcode == NVME_FABRICS) {
			on_connect_data(p + NVME_SQE_LEN);
		} else if (s.opcode == NVME_IO_DSM) {
			round_trip(nvme_dsm_range, p + NVME_SQE_LEN, NVME_DSM_RANGE_LEN, &range);
			assert_int_equal(range.nlb, 8); /* nvme dsm -b 8 */
			seen.dsm++;
		}
		return;
	}
	assert_int_equal(s.sgl.type, NVME_SGL_KEYED_DATA_BLOCK);
	assert_int_equal(len, NVME_SQE_LEN);
	if (s.sgl.len)
		expected[expected_next++ % ARRAY_SIZE(expected)] =
			(struct expected){.sqe = s, .addr = s.sgl.addr, .key = s.sgl.key};
}

static void on_message(uint8_t *p, size_t len)
{
	struct nvme_cqe q;

	if (len >= NVME_SQE_LEN) {
		on_command(p, len);
	} else {
		assert_int_equal(len, NVME_CQE_LEN);
		round_trip(nvme_cqe, p, NVME_CQE_LEN, &q);
		seen.cqe++;
	}
}

static void on_mad(const uint8_t *mad)
{
	const uint8_t *body = mad + MAD_HDR_LEN;
	uint16_t attr = ld_be16(mad + 16);
	struct nvme_rdma_req req;
	struct nvme_rdma_rep rep;

	/* Private data of a REQ begins 140 bytes into its body, that of a REP 36 bytes. */
	if (attr == CM_ATTR_REQ) {
		round_trip(nvme_rdma_req, body + 140 + CM_IP_HDR_LEN, NVME_RDMA_REQ_LEN, &req);
		assert_int_equal(req.recfmt, 0);
		assert_int_equal(req.hrqsize, req.hsqsize + 1);
		seen.req++;
	} else if (attr == CM_ATTR_REP) {
		round_trip(nvme_rdma_rep, body + 36, NVME_RDMA_REP_LEN, &rep);
		assert_true(rep.crqsize > 0);
		seen.rep++;
	}
}

/* --- packets ------------------------------------------------------------------------------------
 */

struct assembly { /* a message of several packets to one QP */
	uint32_t qpn;
	bool write;
	uint64_t addr;
	uint32_t key;
	size_t len;
	uint8_t bytes[MESSAGE_MAX];
};

static struct assembly assemblies[16];

static struct assembly *assembly_of(uint32_t qpn)
{
	for (unsigned i = 0; i < ARRAY_SIZE(assemblies); i++)
		if (assemblies[i].qpn == qpn || !assemblies[i].qpn) {
			assemblies[i].qpn = qpn;
			return &assemblies[i];
		}
	fail_msg("more queue pairs than expected");
	return NULL;
}

static void on_payload(const struct pkt_hdr *h, uint32_t flags, const uint8_t *p, size_t len)
{
	struct assembly *a = assembly_of(h->bth.dqpn);

	if (flags & (OPF_FIRST | OPF_ONLY)) {
		a->write = flags & OPF_WRITE;
		a->addr = h->reth.va;
		a->key = h->reth.rkey;
		a->len = 0;
	}
	assert_true(len <= MESSAGE_MAX - a->len);
	memcpy(a->bytes + a->len, p, len);
	a->len += len;
	if (!(flags & (OPF_LAST | OPF_ONLY)))
		return;
	if (a->write)
		on_data(a->addr, a->key, a->bytes, a->len);
	else
		on_message(a->bytes, a->len);
}

static void every_capsule_encodes_to_what_it_was_decoded_from(void **state)
{
	(void)state;
	for (size_t i = 0; i < captured.count; i++) {
		const struct roce_packet *p = &captured.packet[i];
		struct pkt_hdr h;
		int at = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);
		uint32_t flags;
		size_t len;

		where = p;
		assert_true(at > 0);
		flags = opcode_table[h.bth.opcode].flags;
		len = p->udp_len - ICRC_LEN - (size_t)at - h.bth.pad;
		if (h.bth.dqpn == GSI_QPN)
			on_mad(p->udp + at);
		else if (flags & (OPF_SEND | OPF_WRITE))
			on_payload(&h, flags, p->udp + at, len);
		else if (h.bth.opcode == OPCODE_RC_READ_RESPONSE_ONLY &&
			 len == NVMF_CONNECT_DATA_LEN)
			on_connect_data(p->udp + at);
	}
}

static void the_capture_held_every_kind(void **state)
{
	(void)state;
	assert_true(seen.sqe > 50 && seen.cqe > 50);
	assert_true(seen.connect >= 4 && seen.property >= 10 && seen.connect_data >= 4);
	assert_true(seen.in_capsule > 0 && seen.dsm > 0);
	assert_true(seen.req >= 4 && seen.rep >= 4);
	assert_true(seen.id_ctrl > 0 && seen.id_ns > 0 && seen.ns_list > 0 && seen.ns_descs > 0);
	assert_true(seen.effects > 0 && seen.smart > 0 && seen.disc_entry >= 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_capsule_encodes_to_what_it_was_decoded_from),
		cmocka_unit_test(the_capture_held_every_kind),
	};

	for (int i = 1; i < argc; i++)
		if (roce_pcap_read(&captured, argv[i]) != 0) {
			print_error("%s: no such pcap file\n", argv[i]);
			return 1;
		}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
