/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_log.h"
#include "wire/nvme_rdma.h"

static uint8_t buf[4096], out[4096];

/* Hex digits of a capsule, as Linux sent it, into buf. */
static size_t from_hex(const char *hex)
{
	size_t n = 0;

	memset(buf, 0, sizeof(buf));
	for (; hex[0] && hex[1]; hex += 2, n++)
		for (int i = 0; i < 2; i++)
			buf[n] = (uint8_t)(buf[n] << 4 |
					   (hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10));
	return n;
}

static struct nvme_sqe sqe_round(const char *hex)
{
	struct nvme_sqe s;
	struct cursor c;
	struct wcursor w = wcursor_init(out, NVME_SQE_LEN);

	assert_int_equal(from_hex(hex), NVME_SQE_LEN);
	c = cursor_init(buf, NVME_SQE_LEN);
	nvme_sqe_get(&c, &s);
	assert_false(c.overrun);
	assert_int_equal(cursor_left(&c), 0);
	nvme_sqe_put(&w, &s);
	assert_false(w.overrun);
	assert_memory_equal(buf, out, NVME_SQE_LEN);
	return s;
}

/* The capsules are those of tests/golden's rxe-nvme.pcap, by packet number. */
static void a_connect_of_linux_reads_and_writes_back(void **state)
{
	struct nvme_sqe s =
		sqe_round(/* 89 */
			  "7f4000000100000000000000000000000000000000000000004004068088ffff"
			  "000400916700004f000000001f00000088130000000000000000000000000000");
	struct nvme_sqe again = {.flags = s.flags, .cid = s.cid, .sgl = s.sgl};
	struct nvmf_connect co;

	(void)state;
	assert_int_equal(s.opcode, NVME_FABRICS);
	assert_int_equal(nvmf_fctype(&s), NVMF_CONNECT);
	assert_int_equal(s.sgl.type, NVME_SGL_KEYED_DATA_BLOCK);
	assert_int_equal(s.sgl.subtype, NVME_SGL_INVALIDATE);
	assert_int_equal(s.sgl.len, NVMF_CONNECT_DATA_LEN);
	assert_int_equal(s.sgl.key, 0x6791);
	assert_true(s.sgl.addr == 0xffff888006044000ull);
	nvmf_connect_from_sqe(&co, &s);
	assert_int_equal(co.recfmt, 0);
	assert_int_equal(co.qid, 0);
	assert_int_equal(co.sqsize, 31);
	assert_int_equal(co.cattr, 0);
	assert_int_equal(co.kato_ms, 5000);
	nvmf_connect_to_sqe(&co, &again);
	assert_memory_equal(&s, &again, sizeof(s));
}

static void a_property_set_of_linux_reads_and_writes_back(void **state)
{
	struct nvme_sqe s =
		sqe_round(/* 14 */
			  "7f40001000000000000000000000000000000000000000000000000000000000"
			  "0000000000000040000000001400000060004600000000000000000000000000");
	struct nvme_sqe again = {.flags = s.flags, .cid = s.cid, .sgl = s.sgl};
	struct nvmf_prop p;

	(void)state;
	assert_int_equal(nvmf_fctype(&s), NVMF_PROPERTY_SET);
	assert_int_equal(s.cid, 0x1000);
	nvmf_prop_from_sqe(&p, &s);
	assert_false(p.wide);
	assert_int_equal(p.offset, NVME_PROP_CC);
	assert_int_equal(p.value, NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16 | NVME_CC_CSS_IOCS);
	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_SET, &again);
	assert_memory_equal(&s, &again, sizeof(s));
}

static void a_write_with_data_in_the_capsule_has_an_offset_descriptor(void **state)
{
	struct nvme_sqe s =
		sqe_round(/* 292 */
			  "01400e0001000000000000000000000000000000000000000000000000000000"
			  "0002000000000001000000000000000000000000000000000000000000000000");
	struct nvme_sqe again = s;

	(void)state;
	assert_int_equal(s.opcode, NVME_IO_WRITE);
	assert_int_equal(s.sgl.type, NVME_SGL_DATA_BLOCK);
	assert_int_equal(s.sgl.subtype, NVME_SGL_OFFSET);
	assert_int_equal(s.sgl.len, 512);
	assert_int_equal(nvme_rw_nlb(&s), 1);
	again.cdw10 = again.cdw11 = again.cdw12 = ~0u;
	nvme_rw_set(&again, nvme_rw_slba(&s), nvme_rw_nlb(&s), 0);
	assert_memory_equal(&s, &again, sizeof(s));
}

static void get_log_page_carries_32_bits_of_length_and_an_offset(void **state)
{
	struct nvme_sqe s =
		sqe_round(/* 68 */
			  "024002100000000000000000000000000000000000000000304679098088ffff"
			  "000c00234600004f7000ff020000000000000000000000000000000000000000");
	struct nvme_sqe again = {.flags = s.flags, .cid = s.cid, .sgl = s.sgl};
	struct nvme_get_log g;

	(void)state;
	nvme_get_log_from_sqe(&g, &s);
	assert_int_equal(g.lid, NVME_LID_DISCOVERY);
	assert_int_equal(g.len, 3072);
	assert_int_equal(g.offset, 0);
	nvme_get_log_to_sqe(&g, &again);
	assert_memory_equal(&s, &again, sizeof(s));
	g = (struct nvme_get_log){.lid = 5,
				  .len = 4ull << 32,
				  .offset = 0x123456789abc,
				  .rae = 1,
				  .lsi = 0x1234,
				  .uuid = 0x7f,
				  .csi = 2,
				  .ot = true};
	again = (struct nvme_sqe){0};
	nvme_get_log_to_sqe(&g, &again);
	nvme_get_log_from_sqe(&g, &again);
	assert_true(g.len == 4ull << 32);
	assert_true(g.offset == 0x123456789abc);
	assert_true(g.rae && g.ot);
	assert_int_equal(g.lsi, 0x1234);
	assert_int_equal(g.uuid, 0x7f);
	assert_int_equal(g.csi, 2);
}

static void a_completion_reads_and_writes_back(void **state)
{
	struct nvme_cqe q;
	struct cursor c;
	struct wcursor w = wcursor_init(out, NVME_CQE_LEN);

	(void)state;
	from_hex("7f007f00000000000d0000000e100000"); /* 163 */
	c = cursor_init(buf, NVME_CQE_LEN);
	nvme_cqe_get(&c, &q);
	assert_int_equal(q.result, NVME_NUM_QUEUES(128, 128));
	assert_int_equal(q.sqhd, 13);
	assert_int_equal(q.cid, 0x100e);
	assert_int_equal(q.status, NVME_SC_SUCCESS);
	q.status = NVME_SC_CONNECT_INVALID_PARAM | NVME_STATUS_DNR;
	nvme_cqe_put(&w, &q);
	assert_int_equal(ld_le16(out + 14), (0x4182 << 1) & 0xffff);
}

static void structures_have_the_length_the_specification_gives(void **state)
{
	static struct nvme_id_ctrl ctrl;
	static struct nvme_id_ns ns;
	static struct nvme_effects fx;
	struct nvme_smart smart = {.media_errors = {7, 1}};
	struct nvme_id_ctrl_nvm limits = {.wzsl = 13, .dmsl = 0x1122};
	struct nvme_firmware_log fw = {.afi = 1};
	struct nvme_error_entry err = {.error_count = 1, .trtype_info = 0xabcd};
	struct nvmf_connect_data cd = {.cntlid = 0x1234};
	struct nvmf_disc_hdr hdr = {.genctr = 1};
	struct nvmf_disc_entry entry = {.trtype = 1};
	uint32_t ids[3] = {1, 2, 9}, ids_back[8];
	uint16_t cntl[2] = {4, 5}, cntl_back[8];
	struct wcursor w;
	struct cursor c;

	(void)state;
#define LEN_IS(call, len)                         \
	do {                                      \
		w = wcursor_init(out, 4096);      \
		call;                             \
		assert_false(w.overrun);          \
		assert_int_equal(w.p - out, len); \
	} while (0)
	ctrl.subnqn[0] = 'n';
	ctrl.cntrltype = 1;
	ctrl.psd[31].apws = 9;
	ctrl.ioccsz = 0x104;
	LEN_IS(nvme_id_ctrl_put(&w, &ctrl), NVME_IDENTIFY_LEN);
	assert_int_equal(out[111], 1);
	assert_int_equal(out[768], 'n');
	assert_int_equal(ld_le32(out + 1792), 0x104);
	assert_int_equal(out[2048 + 31 * 32 + 22], 9);
	ns.nsattr = 1;
	ns.lbaf[63].ds = 12;
	LEN_IS(nvme_id_ns_put(&w, &ns), NVME_IDENTIFY_LEN);
	assert_int_equal(out[99], 1);
	assert_int_equal(out[128 + 63 * 4 + 2], 12);
	LEN_IS(nvme_id_ctrl_nvm_put(&w, &limits), NVME_IDENTIFY_LEN);
	assert_int_equal(out[1], 13);
	assert_int_equal(ld_le64(out + 8), 0x1122);
	fx.io[255] = 3;
	LEN_IS(nvme_effects_put(&w, &fx), NVME_EFFECTS_LEN);
	assert_int_equal(out[2044], 3);
	LEN_IS(nvme_smart_put(&w, &smart), NVME_SMART_LEN);
	assert_int_equal(out[160], 7);
	assert_int_equal(out[168], 1);
	LEN_IS(nvme_firmware_log_put(&w, &fw), NVME_FIRMWARE_LEN);
	LEN_IS(nvme_error_entry_put(&w, &err), NVME_ERROR_ENTRY_LEN);
	assert_int_equal(ld_le16(out + 40), 0xabcd);
	LEN_IS(nvmf_connect_data_put(&w, &cd), NVMF_CONNECT_DATA_LEN);
	assert_int_equal(ld_le16(out + NVMF_CONNECT_DATA_CNTLID), 0x1234);
	LEN_IS(nvmf_disc_hdr_put(&w, &hdr), NVMF_DISC_HDR_LEN);
	LEN_IS(nvmf_disc_entry_put(&w, &entry), NVMF_DISC_ENTRY_LEN);
	LEN_IS(nvme_ctrl_list_put(&w, cntl, 2), 4096);
	c = cursor_init(out, 4096);
	assert_int_equal(nvme_ctrl_list_get(&c, cntl_back, 8), 2);
	assert_memory_equal(cntl, cntl_back, sizeof(cntl));
	assert_int_equal(cursor_left(&c), 0);
	LEN_IS(nvme_ns_list_put(&w, ids, 3), 4096);
	c = cursor_init(out, 4096);
	assert_int_equal(nvme_ns_list_get(&c, ids_back, 8), 3);
	assert_memory_equal(ids, ids_back, sizeof(ids));
	assert_int_equal(cursor_left(&c), 0);
	assert_false(c.overrun);
#undef LEN_IS
}

static void a_cut_namespace_descriptor_is_refused(void **state)
{
	struct nvme_ns_desc d;
	struct wcursor w = wcursor_init(out, 64);
	struct cursor c;

	(void)state;
	memset(out, 0, sizeof(out));
	nvme_ns_desc_put(&w, NVME_NIDT_UUID, "0123456789abcdef", 16);
	nvme_ns_desc_put(&w, NVME_NIDT_CSI, "", 1);
	c = cursor_init(out, 64);
	assert_int_equal(nvme_ns_desc_get(&c, &d), 1);
	assert_int_equal(d.nidt, NVME_NIDT_UUID);
	assert_memory_equal(d.nid, "0123456789abcdef", 16);
	assert_int_equal(nvme_ns_desc_get(&c, &d), 1);
	assert_int_equal(d.nidt, NVME_NIDT_CSI);
	assert_int_equal(nvme_ns_desc_get(&c, &d), 0);
	c = cursor_init(out, 19);
	assert_int_equal(nvme_ns_desc_get(&c, &d), -EBADMSG);
	c = cursor_init(out, 3);
	assert_int_equal(nvme_ns_desc_get(&c, &d), -EBADMSG);
	c = cursor_init(out, 0);
	assert_int_equal(nvme_ns_desc_get(&c, &d), 0);
}

static void private_data_reads_and_writes_back(void **state)
{
	struct nvme_rdma_req req = {.qid = 3, .hrqsize = 128, .hsqsize = 127, .cntlid = 5}, back;
	struct wcursor w = wcursor_init(out, NVME_RDMA_REQ_LEN);
	struct cursor c = cursor_init(out, NVME_RDMA_REQ_LEN);
	const uint8_t want[10] = {0, 0, 3, 0, 128, 0, 127, 0, 5, 0};

	(void)state;
	nvme_rdma_req_put(&w, &req);
	assert_false(w.overrun);
	assert_ptr_equal(w.p, w.end);
	assert_memory_equal(out, want, sizeof(want));
	nvme_rdma_req_get(&c, &back);
	assert_false(c.overrun);
	assert_memory_equal(&req, &back, sizeof(req));
	c = cursor_init(out, NVME_RDMA_REQ_LEN - 1);
	nvme_rdma_req_get(&c, &back);
	assert_true(c.overrun);
}

static void a_status_has_the_specifications_name(void **state)
{
	(void)state;
	assert_string_equal(nvme_status_name(NVME_SC_LBA_RANGE | NVME_STATUS_DNR),
			    "LBA Out of Range");
	assert_string_equal(nvme_status_name(0x182), "Connect Invalid Parameters");
	assert_string_equal(nvme_io_status_name(0x182), "Attempted Write to Read Only Range");
	assert_string_equal(nvme_status_name(0x7ff), "unknown status");
}

static void a_power_state_has_all_its_fields(void **state)
{
	struct nvme_id_ctrl id = {.npss = 1};
	struct nvme_id_ctrl back;
	struct wcursor w = wcursor_init(out, sizeof(out));
	struct cursor c = cursor_init(out, sizeof(out));

	(void)state;
	id.psd[1] = (struct nvme_power_state){.mp = 0x102,
					      .flags = NVME_PSD_NOPS,
					      .enlat = 0x3040506,
					      .exlat = 7,
					      .rrt = 8,
					      .rrl = 9,
					      .rwt = 10,
					      .rwl = 11,
					      .idlp = 12,
					      .ips = 0x40,
					      .actp = 13,
					      .apws = 0x81};
	nvme_id_ctrl_put(&w, &id);
	assert_int_equal(ld_le16(out + 2048 + 32), 0x102);
	assert_int_equal(ld_le32(out + 2048 + 32 + 4), 0x3040506);
	assert_int_equal(ld_le16(out + 2048 + 32 + 16), 12);
	nvme_id_ctrl_get(&c, &back);
	assert_int_equal(back.psd[1].exlat, 7);
	assert_int_equal(back.psd[1].rwl, 11);
	assert_int_equal(back.psd[1].ips, 0x40);
	assert_int_equal(back.psd[1].actp, 13);
}

static void formats_beyond_the_sixteenth_are_named_by_two_more_bits(void **state)
{
	struct nvme_id_ns id = {.nlbaf = 40, .flbas = 0x45};

	(void)state;
	id.lbaf[0x25].ds = 14;
	assert_int_equal(NVME_FLBAS_FORMAT(id.flbas), 0x25);
	assert_int_equal(NVME_ID_NS_LBAF(&id)->ds, 14);
}

static void an_independent_namespace_reads_and_writes_back(void **state)
{
	struct nvme_id_independent_ns s = {.nsfeat = 1,
					   .nmic = 2,
					   .fpi = 3,
					   .anagrpid = 0x4050607,
					   .nsattr = 8,
					   .nvmsetid = 9,
					   .endgid = 10,
					   .nstat = 1};
	struct nvme_id_independent_ns back;
	struct wcursor w = wcursor_init(out, sizeof(out));
	struct cursor c = cursor_init(out, sizeof(out));

	(void)state;
	nvme_id_independent_ns_put(&w, &s);
	assert_int_equal(w.p - out, NVME_IDENTIFY_LEN);
	assert_int_equal(ld_le32(out + 4), 0x4050607);
	assert_int_equal(out[14], 1);
	nvme_id_independent_ns_get(&c, &back);
	assert_int_equal(back.endgid, 10);
	assert_int_equal(back.nvmsetid, 9);
}

static void smart_has_sensors_and_thermal_times(void **state)
{
	struct nvme_smart s = {.warning_temp_time = 1, .thm_temp2_total_time = 2};
	struct nvme_smart back;
	struct wcursor w = wcursor_init(out, NVME_SMART_LEN);
	struct cursor c = cursor_init(out, NVME_SMART_LEN);

	(void)state;
	s.temp_sensor[7] = 300;
	nvme_smart_put(&w, &s);
	assert_false(w.overrun);
	assert_int_equal(ld_le32(out + 192), 1);
	assert_int_equal(ld_le16(out + 214), 300);
	assert_int_equal(ld_le32(out + 228), 2);
	nvme_smart_get(&c, &back);
	assert_int_equal(back.temp_sensor[7], 300);
	assert_int_equal(cursor_left(&c), 0);
}

static void ana_groups_follow_their_header(void **state)
{
	const struct nvme_ana_hdr hdr = {.chgcnt = 5, .ngrps = 1};
	const struct nvme_ana_group group = {.grpid = 1, .nnsids = 2, .chgcnt = 3, .state = 0xf};
	struct nvme_ana_hdr h;
	struct nvme_ana_group g;
	struct wcursor w = wcursor_init(out, NVME_ANA_HDR_LEN + NVME_ANA_GROUP_LEN);
	struct cursor c = cursor_init(out, NVME_ANA_HDR_LEN + NVME_ANA_GROUP_LEN);

	(void)state;
	nvme_ana_hdr_put(&w, &hdr);
	nvme_ana_group_put(&w, &group);
	assert_false(w.overrun);
	assert_int_equal(w.p - out, NVME_ANA_HDR_LEN + NVME_ANA_GROUP_LEN);
	assert_int_equal(out[16 + 16], 0xf);
	nvme_ana_hdr_get(&c, &h);
	nvme_ana_group_get(&c, &g);
	assert_int_equal(h.ngrps, 1);
	assert_int_equal(g.nnsids, 2);
	assert_string_equal(nvme_ana_state_name(g.state), "change");
	assert_string_equal(nvme_ana_state_name(1), "optimized");
}

static void pages_features_and_properties_have_names(void **state)
{
	(void)state;
	assert_string_equal(nvme_log_name(NVME_LID_SMART), "SMART / Health Information");
	assert_string_equal(nvme_log_name(0x6f), "Unknown");
	assert_string_equal(nvme_feature_name(NVME_FID_NUM_QUEUES), "Number of Queues");
	assert_int_equal(nvme_feature_bytes(NVME_FID_HOST_ID), 16);
	assert_int_equal(nvme_feature_bytes(NVME_FID_NUM_QUEUES), 0);
	assert_string_equal(nvme_prop_find(NVME_PROP_CSTS)->key, "csts");
	assert_int_equal(nvme_prop_find(NVME_PROP_CAP)->bytes, 8);
	assert_null(nvme_prop_find(0x18));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connect_of_linux_reads_and_writes_back),
		cmocka_unit_test(a_property_set_of_linux_reads_and_writes_back),
		cmocka_unit_test(a_write_with_data_in_the_capsule_has_an_offset_descriptor),
		cmocka_unit_test(get_log_page_carries_32_bits_of_length_and_an_offset),
		cmocka_unit_test(a_completion_reads_and_writes_back),
		cmocka_unit_test(structures_have_the_length_the_specification_gives),
		cmocka_unit_test(a_cut_namespace_descriptor_is_refused),
		cmocka_unit_test(private_data_reads_and_writes_back),
		cmocka_unit_test(a_status_has_the_specifications_name),
		cmocka_unit_test(a_power_state_has_all_its_fields),
		cmocka_unit_test(formats_beyond_the_sixteenth_are_named_by_two_more_bits),
		cmocka_unit_test(an_independent_namespace_reads_and_writes_back),
		cmocka_unit_test(smart_has_sensors_and_thermal_times),
		cmocka_unit_test(ana_groups_follow_their_header),
		cmocka_unit_test(pages_features_and_properties_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
