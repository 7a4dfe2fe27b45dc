/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the target says of itself: Identify, log pages, features, discovery. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

static uint16_t identify_of(struct bed *b, uint8_t csi, uint8_t cns, uint32_t nsid)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, nsid, 4096);

	s.cdw10 = cns;
	s.cdw11 = (uint32_t)csi << 24;
	memset(b->memory, 0xee, 4096);
	return bed_exec(&b->admin, &s, NULL);
}

static uint16_t identify(struct bed *b, uint8_t cns, uint32_t nsid)
{
	return identify_of(b, NVME_CSI_NVM, cns, nsid);
}

static struct cursor page(struct bed *b)
{
	return cursor_init(b->memory, 4096);
}

static void identify_controller_tells_what_a_host_relies_on(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_id_ctrl id;
	struct cursor c = page(b);

	(void)state;
	b->subsys.vid = 0x1b36;
	b->subsys.ssvid = 0x1af4;
	b->subsys.oui = 0x525410;
	assert_int_equal(identify(b, NVME_CNS_CTRL, 0), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_int_equal(id.vid, 0x1b36);
	assert_int_equal(id.ssvid, 0x1af4);
	assert_memory_equal(id.ieee, "\x10\x54\x52", 3);
	assert_memory_equal(id.sn, "SERIAL              ", 20);
	assert_memory_equal(id.fr, "1.0     ", 8);
	assert_int_equal(id.cntlid, 1);
	assert_int_equal(id.cntrltype, NVME_CNTRLTYPE_IO);
	assert_string_equal(id.subnqn, BED_NQN);
	assert_int_equal(id.ioccsz, (64 + TARGET_CAPSULE_DATA) / 16);
	assert_int_equal(id.iorcsz, 1);
	assert_int_equal(id.icdoff, 0);
	assert_int_equal(id.msdbd, TARGET_SGL_MAX);
	assert_int_equal(id.sgls, 1 | 1 << 2 | 1 << 20);
	assert_int_equal(4096u << id.mdts, TARGET_DATA_MAX);
	assert_int_equal(id.maxcmd, TARGET_QUEUE_ENTRIES_MAX);
	assert_int_equal(id.sqes, 0x66);
	assert_int_equal(id.cqes, 0x44);
	assert_true(id.kas > 0);
	assert_true(id.vwc & NVME_VWC_PRESENT);
	assert_true(id.nn >= 5);
	assert_int_equal(id.anacap, 0);
	assert_int_equal(id.fuses, NVME_FUSES_COMPARE_WRITE);
	assert_int_equal(id.acwu, 0);
	assert_true(id.oncs & NVME_ONCS_VERIFY);
	assert_true(id.oncs & NVME_ONCS_COPY);
	bed_destroy(b);
}

static void identify_namespace_tells_size_format_and_protection(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_id_ns id;
	struct cursor c = page(b);

	(void)state;
	assert_int_equal(identify(b, NVME_CNS_NS, 1), 0);
	nvme_id_ns_get(&c, &id);
	assert_int_equal(id.nsze, BED_BLOCKS);
	assert_int_equal(NVME_ID_NS_LBAF(&id)->ds, 9);
	assert_int_equal(id.nsattr, 0);
	c = page(b);
	assert_int_equal(identify(b, NVME_CNS_NS, 2), 0);
	nvme_id_ns_get(&c, &id);
	assert_int_equal(id.nsattr, NVME_NSATTR_WRITE_PROTECTED);
	c = page(b);
	assert_int_equal(identify(b, NVME_CNS_NS, 5), 0);
	nvme_id_ns_get(&c, &id);
	assert_int_equal(id.nsze, 256);
	assert_int_equal(NVME_ID_NS_LBAF(&id)->ds, 12);
	assert_int_equal(identify(b, NVME_CNS_NS, 3), 0); /* could be there: all zeroes */
	for (int i = 0; i < 4096; i++)
		assert_int_equal(b->memory[i], 0);
	assert_int_equal(identify(b, NVME_CNS_NS, 0), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(identify(b, NVME_CNS_NS, NVME_NSID_ALL), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(identify(b, NVME_CNS_NS, TARGET_NS_MAX + 1), STATUS(NVME_SC_INVALID_NS));
	bed_destroy(b);
}

static void the_namespace_list_begins_after_the_given_id(void **state)
{
	struct bed *b = bed_enabled();
	uint32_t ids[8];
	struct cursor c = page(b);

	(void)state;
	assert_int_equal(identify(b, NVME_CNS_ACTIVE_NS_LIST, 0), 0);
	assert_int_equal(nvme_ns_list_get(&c, ids, 8), 3);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[1], 2);
	assert_int_equal(ids[2], 5);
	c = page(b);
	assert_int_equal(identify(b, NVME_CNS_ACTIVE_NS_LIST, 2), 0);
	assert_int_equal(nvme_ns_list_get(&c, ids, 8), 1);
	assert_int_equal(ids[0], 5);
	c = page(b);
	assert_int_equal(identify(b, NVME_CNS_ACTIVE_NS_LIST, 0xfffffffd), 0);
	assert_int_equal(nvme_ns_list_get(&c, ids, 8), 0);
	assert_int_equal(identify(b, NVME_CNS_ACTIVE_NS_LIST, 0xfffffffe),
			 STATUS(NVME_SC_INVALID_NS));
	bed_destroy(b);
}

static void namespace_descriptors_hold_the_identifiers(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_ns_desc d;
	struct cursor c = page(b);
	bool uuid = false;

	(void)state;
	assert_int_equal(identify(b, NVME_CNS_NS_DESC_LIST, 1), 0);
	while (nvme_ns_desc_get(&c, &d) == 1)
		if (d.nidt == NVME_NIDT_UUID) {
			uuid = true;
			assert_int_equal(d.nidl, 16);
			assert_memory_equal(d.nid, b->ns.uuid, 16);
		}
	assert_true(uuid);
	assert_false(c.overrun);
	assert_int_equal(identify(b, NVME_CNS_NS_DESC_LIST, 3), STATUS(NVME_SC_INVALID_NS));
	bed_destroy(b);
}

/* Until the controller ends, whatever they come to say meanwhile. */
static void a_controller_is_what_subsystem_and_port_said_when_it_came(void **state)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct nvme_id_ctrl id;
	struct cursor c = page(b);

	(void)state;
	b->subsys.vs = NVME_VS(1, 3, 0);
	b->port.mdts = 5;
	target_port_capsules(&b->port, 4100);
	bed_queue_open(b, &b->admin, 0);
	assert_int_equal(bed_connect(&b->admin, &a, NULL), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 0);
	b->subsys.vs = 0;
	b->port.mdts = 0;
	target_port_capsules(&b->port, -1);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_VS, false), NVME_VS(1, 3, 0));
	assert_int_equal(identify(b, NVME_CNS_CTRL, 0), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_int_equal(id.ver, NVME_VS(1, 3, 0));
	assert_int_equal(id.mdts, 5);
	assert_int_equal(id.ioccsz, 4 + 4096 / 16); /* whole units of 16 bytes */
	assert_int_equal(id.msdbd, TARGET_SGL_MAX);
	/* Its I/O queues have room for what any was ever told. */
	target_port_capsules(&b->port, TARGET_CAPSULE_DATA_MAX);
	target_port_capsules(&b->port, 0);
	assert_int_equal(target_port_capsule_room(&b->port, &bed_ops), TARGET_CAPSULE_DATA_MAX);
	a = bed_connect_args(1, 1);
	bed_queue_open(b, &b->io, 1);
	assert_int_equal(bed_connect(&b->io, &a, NULL), 0);
	for (uint32_t nlb = 1; nlb <= 16; nlb++) {
		struct nvme_sqe s = bed_sqe(NVME_IO_WRITE, 1, 0);
		struct bed_cmd *cmd;

		nvme_rw_set(&s, 0, nlb, 0);
		s.sgl = (struct nvme_sgl){
			.len = nlb * 512, .type = NVME_SGL_DATA_BLOCK, .subtype = NVME_SGL_OFFSET};
		cmd = bed_send_data(&b->io, &s, b->memory, nlb * 512);
		assert_int_equal(PLAIN(cmd->cqe.status),
				 nlb <= 8 ? 0 : STATUS(NVME_SC_SGL_INVALID_OFFSET));
		bed_release(cmd);
	}
	{
		struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, (4096 << 5) + 512);

		nvme_rw_set(&s, 0, (4096 << 5) / 512 + 1, 0);
		assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
		s = bed_sqe(NVME_IO_READ, 1, 4096 << 5);
		nvme_rw_set(&s, 0, (4096 << 5) / 512, 0);
		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	}
	bed_destroy(b);
}

/* As hosts of NVMe 2.0 ask: by command set, of which there is one. */
static void identify_tells_of_the_one_command_set(void **state)
{
	struct nvme_id_ctrl_nvm limits;
	struct nvme_id_independent_ns any;
	struct bed *b = bed_enabled();
	struct cursor c = page(b);
	uint32_t ids[8];

	(void)state;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, 0), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_CSS_IOCS | NVME_CC_IOSQES_64 |
						  NVME_CC_IOCQES_16),
			 0);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	assert_int_equal(identify(b, NVME_CNS_IO_COMMAND_SETS, 0), 0);
	assert_int_equal(ld_le64(b->memory), 1u << NVME_CSI_NVM);
	for (int i = 8; i < 4096; i++)
		assert_int_equal(b->memory[i], 0);
	assert_int_equal(identify(b, NVME_CNS_CS_CTRL, 0), 0);
	nvme_id_ctrl_nvm_get(&c, &limits);
	assert_int_equal(4096ull << limits.wzsl, 65536 * 512); /* as many as NLB can say */
	assert_int_equal(limits.vsl | limits.wusl | limits.dmrl, 0);
	assert_int_equal(identify(b, NVME_CNS_CS_NS, 1), 0);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(b->memory[i], 0);
	c = page(b);
	assert_int_equal(identify(b, NVME_CNS_CS_NS_LIST, 1), 0);
	assert_int_equal(nvme_ns_list_get(&c, ids, 8), 2);
	assert_int_equal(ids[0], 2);
	for (uint32_t nsid = 1; nsid <= 3; nsid++) { /* 2: read-only, 3: there is none */
		c = page(b);
		assert_int_equal(identify(b, NVME_CNS_CS_INDEPENDENT_NS, nsid), 0);
		nvme_id_independent_ns_get(&c, &any);
		assert_int_equal(any.nstat, nsid < 3 ? NVME_NSTAT_READY : 0);
		assert_int_equal(any.nmic, nsid < 3 ? NVME_NMIC_SHARED : 0);
		assert_int_equal(any.nsattr, nsid == 2 ? NVME_NSATTR_WRITE_PROTECTED : 0);
	}
	assert_int_equal(identify(b, NVME_CNS_CS_NS, TARGET_NS_MAX + 1),
			 STATUS(NVME_SC_INVALID_NS));
	for (unsigned csi = 1; csi < 256; csi++) {
		assert_int_equal(identify_of(b, (uint8_t)csi, NVME_CNS_CS_CTRL, 0),
				 STATUS(NVME_SC_INVALID_FIELD));
		assert_int_equal(identify_of(b, (uint8_t)csi, NVME_CNS_CS_NS, 1),
				 STATUS(NVME_SC_INVALID_FIELD));
	}
	bed_destroy(b);
}

static void identify_structures_not_offered_are_refused(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 1, 4095);

	(void)state;
	for (unsigned cns = 4; cns < 256; cns++)
		if ((cns < NVME_CNS_CS_NS || cns > NVME_CNS_CS_INDEPENDENT_NS) &&
		    cns != NVME_CNS_IO_COMMAND_SETS)
			assert_int_equal(identify(b, (uint8_t)cns, 1),
					 STATUS(NVME_SC_INVALID_FIELD));
	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_SGL_INVALID_DATA));
	bed_destroy(b);
}

/* --- log pages ----------------------------------------------------------------------------------
 */

static uint16_t get_log(struct bed *b, uint8_t lid, uint64_t offset, uint32_t len)
{
	struct nvme_get_log g = {.lid = lid, .offset = offset, .len = len};
	struct nvme_sqe s = bed_sqe(0, 0, len);

	nvme_get_log_to_sqe(&g, &s);
	memset(b->memory, 0xee, len + 16);
	return bed_exec(&b->admin, &s, NULL);
}

static void a_refused_command_is_in_the_error_log(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);
	struct nvme_error_entry e;
	struct cursor c;
	struct bed_cmd *cmd;

	(void)state;
	nvme_rw_set(&s, 999999, 1, 0);
	cmd = bed_send(&b->io, &s);
	assert_true(cmd->cqe.status & NVME_STATUS_MORE);
	bed_release(cmd);
	assert_int_equal(get_log(b, NVME_LID_ERROR, 0, 128), 0);
	c = cursor_init(b->memory, 128);
	nvme_error_entry_get(&c, &e);
	assert_int_equal(e.error_count, 1);
	assert_int_equal(e.sqid, 1);
	assert_int_equal(e.cid, s.cid);
	assert_int_equal(e.status, (STATUS(NVME_SC_LBA_RANGE) << 1) & 0xffff);
	assert_int_equal(e.lba, 999999);
	assert_int_equal(e.nsid, 1);
	nvme_error_entry_get(&c, &e);
	assert_int_equal(e.error_count, 0); /* no second one */
	for (int i = 0; i < 40; i++)
		(void)bed_exec(&b->io, &s, NULL);
	assert_int_equal(get_log(b, NVME_LID_ERROR, 0, TARGET_ERRLOG_ENTRIES * 64), 0);
	c = cursor_init(b->memory, 64);
	nvme_error_entry_get(&c, &e);
	assert_int_equal(e.error_count, 41); /* the latest first */
	c = cursor_init(b->memory + (TARGET_ERRLOG_ENTRIES - 1) * 64, 64);
	nvme_error_entry_get(&c, &e);
	assert_int_equal(e.error_count, 41 - TARGET_ERRLOG_ENTRIES + 1);
	bed_destroy(b);
}

static void smart_counts_commands_and_data(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512 * 100);
	struct nvme_smart smart;
	struct cursor c;

	(void)state;
	nvme_rw_set(&s, 0, 100, 0);
	for (int i = 0; i < 15; i++)
		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	b->now += 7200 * NSEC_PER_SEC;
	assert_int_equal(get_log(b, NVME_LID_SMART, 0, 512), 0);
	c = cursor_init(b->memory, 512);
	nvme_smart_get(&c, &smart);
	assert_int_equal(smart.critical_warning, 0);
	assert_int_equal(smart.host_reads.lo, 15);
	assert_int_equal(smart.host_writes.lo, 0);
	assert_int_equal(smart.data_units_read.lo, 2); /* 1500 sectors, in thousands, rounded up */
	assert_int_equal(smart.power_on_hours.lo, 2);
	assert_int_equal(smart.media_errors.lo, 0);
	b->slow.fail = -EIO;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_READ_ERROR));
	s.opcode = NVME_IO_VERIFY; /* data units, and no command that reads */
	assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	nvme_rw_set(&s, 999999, 1, 0);
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(get_log(b, NVME_LID_SMART, 0, 512), 0);
	c = cursor_init(b->memory, 512);
	nvme_smart_get(&c, &smart);
	assert_int_equal(smart.host_reads.lo, 16);
	assert_int_equal(smart.data_units_read.lo, 2);
	assert_int_equal(smart.media_errors.lo, 1);
	assert_int_equal(smart.num_err_log_entries.lo, 2);
	bed_destroy(b);
}

static struct nvme_smart smart_of(struct bed *b)
{
	struct cursor c = cursor_init(b->memory, 512);
	struct nvme_smart smart;

	assert_int_equal(get_log(b, NVME_LID_SMART, 0, 512), 0);
	nvme_smart_get(&c, &smart);
	return smart;
}

/* Base 2.0 figure 207: minutes with I/O commands outstanding, and ends without a shutdown. */
static void smart_tells_how_busy_it_was_and_how_others_ended(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);

	(void)state;
	nvme_rw_set(&s, 0, 1, 0);
	assert_int_equal(smart_of(b).power_cycles.lo, 1);
	b->now += 600 * NSEC_PER_SEC; /* idle */
	assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	assert_int_equal(smart_of(b).ctrl_busy_time.lo, 0);
	b->slow.hold = true;
	(void)bed_send(&b->io, &s);
	b->now += 150 * NSEC_PER_SEC;
	(void)target_group_process(&b->target.group, b->now);
	slow_release(b);
	assert_int_equal(smart_of(b).ctrl_busy_time.lo, 2);
	bed_queue_close(&b->io); /* it stays told */
	assert_int_equal(smart_of(b).ctrl_busy_time.lo, 2);
	assert_int_equal(smart_of(b).unsafe_shutdowns.lo, 0);
	for (unsigned polite = 0; polite < 3; polite++) { /* ends of another controller */
		struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

		bed_queue_open(b, &b->other, 0);
		assert_int_equal(bed_connect(&b->other, &a, NULL), 0);
		if (polite) /* or it was never enabled */
			assert_int_equal(bed_property_set(&b->other, NVME_PROP_CC,
							  NVME_CC_EN | NVME_CC_IOSQES_64 |
								  NVME_CC_IOCQES_16),
					 0);
		if (polite == 1)
			assert_int_equal(bed_property_set(&b->other, NVME_PROP_CC,
							  NVME_CC_EN | NVME_CC_SHN_NORMAL |
								  NVME_CC_IOSQES_64 |
								  NVME_CC_IOCQES_16),
					 0);
		bed_queue_close(&b->other);
	}
	assert_int_equal(smart_of(b).unsafe_shutdowns.lo, 1);
	bed_destroy(b);
}

/* Who asks has got a controller for that, often, and wants to know of what others did. */
static void smart_sums_over_all_controllers_of_the_subsystem(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512 * 100);

	(void)state;
	nvme_rw_set(&s, 0, 100, 0);
	for (int i = 0; i < 15; i++)
		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	b->slow.fail = -EIO;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_READ_ERROR));
	for (int there = 1; there >= 0; there--) { /* the other one is, and is gone */
		struct nvme_smart smart;

		if (!there) {
			bed_queue_close(&b->io);
			bed_queue_close(&b->admin);
			bed_queue_open(b, &b->admin, 0);
			assert_int_equal(bed_connect(&b->admin, &a, NULL), 0);
			assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
							  NVME_CC_EN | NVME_CC_IOSQES_64 |
								  NVME_CC_IOCQES_16),
					 0);
		}
		smart = smart_of(b);
		assert_int_equal(smart.host_reads.lo, 16);
		assert_int_equal(smart.data_units_read.lo, 2);
		assert_int_equal(smart.media_errors.lo, 1);
		assert_int_equal(smart.num_err_log_entries.lo, there);
	}
	bed_destroy(b);
}

static void the_supported_pages_are_those_there_are(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_supported_logs logs;
	struct cursor c;

	(void)state;
	assert_int_equal(get_log(b, NVME_LID_SUPPORTED, 0, NVME_SUPPORTED_LEN), 0);
	c = cursor_init(b->memory, NVME_SUPPORTED_LEN);
	nvme_supported_logs_get(&c, &logs);
	for (unsigned lid = 0; lid < 256; lid++) {
		bool there = get_log(b, (uint8_t)lid, 0, 64) == 0;

		assert_int_equal(logs.lid[lid], there ? NVME_LID_SUPPORTED_LSUPP : 0);
	}
	bed_destroy(b);
}

static void any_stretch_of_a_page_can_be_had(void **state)
{
	struct bed *b = bed_enabled();
	uint8_t whole[4096];

	(void)state;
	assert_int_equal(get_log(b, NVME_LID_EFFECTS, 0, 4096), 0);
	memcpy(whole, b->memory, sizeof(whole));
	assert_int_equal(ld_le32(whole + NVME_ADMIN_IDENTIFY * 4), NVME_EFFECT_CSUPP);
	assert_int_equal(ld_le32(whole + 1024 + NVME_IO_WRITE * 4),
			 NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC);
	assert_int_equal(ld_le32(whole + NVME_ADMIN_FORMAT * 4), 0);
	for (uint64_t at = 0; at < 4096; at += 508) {
		assert_int_equal(get_log(b, NVME_LID_EFFECTS, at, 508), 0);
		assert_memory_equal(b->memory, whole + at, min_of(508ull, 4096 - at));
	}
	assert_int_equal(b->memory[508], 0xee); /* and not a byte more */
	assert_int_equal(get_log(b, NVME_LID_FIRMWARE, 0, 4096), 0);
	assert_memory_equal(b->memory + 8, "1.0     ", 8);
	for (int i = 512; i < 4096; i++) /* past the end of the page */
		assert_int_equal(b->memory[i], 0);
	bed_destroy(b);
}

static void pages_and_stretches_that_are_none_are_refused(void **state)
{
	static const uint8_t known[] = {
		NVME_LID_SUPPORTED,  NVME_LID_ERROR,   NVME_LID_SMART,		NVME_LID_FIRMWARE,
		NVME_LID_CHANGED_NS, NVME_LID_EFFECTS, NVME_LID_FEATURE_EFFECTS};
	struct bed *b = bed_enabled();
	struct nvme_get_log g = {.lid = NVME_LID_SMART, .len = 512};
	struct nvme_sqe s = bed_sqe(0, 1, 512);

	(void)state;
	for (unsigned lid = 0; lid < 256; lid++)
		if (!memchr(known, (int)lid, sizeof(known)))
			assert_int_equal(get_log(b, (uint8_t)lid, 0, 512),
					 STATUS(NVME_SC_INVALID_LOG_PAGE));
	assert_int_equal(get_log(b, NVME_LID_SMART, 512, 512), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(get_log(b, NVME_LID_SMART, 2, 8), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(get_log(b, NVME_LID_SMART, UINT64_MAX - 3, 512),
			 STATUS(NVME_SC_INVALID_FIELD));
	nvme_get_log_to_sqe(&g, &s); /* of one namespace: not offered */
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	s = bed_sqe(0, 0, 512);
	g.len = 16ull << 30; /* 32 bits of length, all set */
	nvme_get_log_to_sqe(&g, &s);
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

static void a_log_page_takes_no_more_memory_than_there_is_of_it(void **state)
{
	static const struct {
		uint8_t lid;
		uint32_t offset, exists;
	} pages[] = {
		{NVME_LID_ERROR, 0, TARGET_ERRLOG_ENTRIES * 64},
		{NVME_LID_SMART, 0, 512},
		{NVME_LID_SMART, 508, 4},
		{NVME_LID_FIRMWARE, 4, 508},
		{NVME_LID_CHANGED_NS, 0, 4096},
		{NVME_LID_EFFECTS, 4092, 4},
	};
	struct bed *b = bed_enabled();

	(void)state;
	b->admin.hold_fetches = true;
	for (unsigned i = 0; i < ARRAY_SIZE(pages); i++) {
		struct nvme_get_log g = {
			.lid = pages[i].lid, .offset = pages[i].offset, .len = TARGET_DATA_MAX};
		struct nvme_sqe s = bed_sqe(0, 0, TARGET_DATA_MAX);
		struct bed_cmd *cmd;

		nvme_get_log_to_sqe(&g, &s);
		memset(b->memory, 0xee, BED_MEMORY);
		cmd = bed_send(&b->admin, &s);
		assert_true(cmd->fetching);
		assert_int_equal(cmd->req.data_len + cmd->req.scratch_len, pages[i].exists);
		bed_fetch_now(cmd);
		assert_int_equal(PLAIN(cmd->cqe.status), NVME_SC_SUCCESS);
		bed_release(cmd);
		for (uint32_t at = pages[i].exists; at < TARGET_DATA_MAX; at++)
			assert_int_equal(b->memory[at],
					 0); /* what a host may count on with others */
		assert_int_equal(b->memory[TARGET_DATA_MAX], 0xee);
	}
	bed_destroy(b);
}

/* --- features -----------------------------------------------------------------------------------
 */

static uint16_t set_feature(struct bed *b, uint32_t dw10, uint32_t dw11, uint64_t *result)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);

	s.cdw10 = dw10;
	s.cdw11 = dw11;
	return bed_exec(&b->admin, &s, result);
}

static uint16_t get_feature(struct bed *b, uint8_t fid, uint32_t sel, uint64_t *result)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_GET_FEATURES, 0, 0);

	s.cdw10 = fid | sel << 8;
	return bed_exec(&b->admin, &s, result);
}

static void features_are_of_no_namespace(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_SET_FEATURES, 1, 0);
	struct bed *b = bed_enabled();

	(void)state;
	s.cdw10 = NVME_FID_ARBITRATION;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_FEATURE_NOT_PER_NS));
	s.nsid = 3;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_NS));
	s.nsid = NVME_NSID_ALL;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void the_number_of_queues_is_granted_up_to_the_limit(void **state)
{
	struct bed *b = bed_enabled();
	struct bed_connect a = bed_connect_args(1, 1);
	uint64_t v;

	(void)state;
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, NVME_NUM_QUEUES(4, 4), &v), 0);
	assert_int_equal(v, NVME_NUM_QUEUES(4, 4));
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, NVME_NUM_QUEUES(1000, 1000), &v), 0);
	assert_int_equal(v, NVME_NUM_QUEUES(TARGET_IO_QUEUES_MAX, TARGET_IO_QUEUES_MAX));
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, 0xffff0000, NULL),
			 STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, 0x0000ffff, NULL),
			 STATUS(NVME_SC_INVALID_FIELD));
	bed_queue_open(b, &b->io, 1);
	assert_int_equal(bed_connect(&b->io, &a, NULL), 0);
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, NVME_NUM_QUEUES(4, 4), NULL),
			 STATUS(NVME_SC_CMD_SEQ_ERROR));
	bed_destroy(b);
}

/* As nvmetcli's qid_max and max_queue_size say. */
static void a_subsystem_and_a_port_may_allow_less(void **state)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct nvme_id_ctrl id;
	struct cursor c = page(b);
	uint64_t v;

	(void)state;
	b->subsys.qid_max = 3;
	b->port.entries_max = 20;
	bed_queue_open(b, &b->admin, 0); /* of which there may be as many as ever */
	assert_int_equal(bed_connect(&b->admin, &a, NULL), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 0);
	assert_int_equal(NVME_CAP_MQES(bed_property_get(&b->admin, NVME_PROP_CAP, true)), 19);
	assert_int_equal(identify(b, NVME_CNS_CTRL, 0), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_int_equal(id.maxcmd, 20);
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, NVME_NUM_QUEUES(10, 10), &v), 0);
	assert_int_equal(v, NVME_NUM_QUEUES(3, 3));
	assert_int_equal(get_feature(b, NVME_FID_NUM_QUEUES, NVME_SEL_DEFAULT, &v), 0);
	assert_int_equal(v, NVME_NUM_QUEUES(3, 3));
	a = bed_connect_args(3, 1);
	a.co.sqsize = 20;
	bed_queue_open(b, &b->io, 3);
	assert_int_equal(bed_connect(&b->io, &a, &v), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	assert_int_equal(NVMF_CONNECT_IPO(v), NVMF_CONNECT_SQE_SQSIZE);
	a.co.sqsize = 19;
	assert_int_equal(bed_connect(&b->io, &a, NULL), 0);
	a.co.qid = 4;
	bed_queue_open(b, &b->other, 4);
	assert_int_equal(bed_connect(&b->other, &a, &v), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	assert_int_equal(NVMF_CONNECT_IPO(v), NVMF_CONNECT_SQE_QID);
	bed_destroy(b);
}

static void kept_features_come_back_and_defaults_stay(void **state)
{
	static const struct {
		uint8_t fid;
		uint32_t set, get, preset;
	} f[] = {
		{NVME_FID_ARBITRATION, 0x07060503, 0x07060503, 0},
		{NVME_FID_POWER_MGMT, 0x40, 0x40, 0},
		{NVME_FID_TEMP_THRESHOLD, 350, 350, 0xffff},
		{NVME_FID_ERROR_RECOVERY, 17, 17, 0},
		{NVME_FID_VOLATILE_WC, 0, 0, 1},
		{NVME_FID_WRITE_ATOMIC, 1, 1, 0},
		{NVME_FID_IOCS_PROFILE, 0, 0, 0},
		{NVME_FID_ASYNC_EVENT, 0xffffffff, NVME_OAES_NS_ATTR, 0},
	};
	struct bed *b = bed_enabled();
	uint64_t v;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++) {
		assert_int_equal(get_feature(b, f[i].fid, NVME_SEL_CURRENT, &v), 0);
		assert_int_equal(v, f[i].preset);
		assert_int_equal(set_feature(b, f[i].fid, f[i].set, NULL), 0);
		assert_int_equal(get_feature(b, f[i].fid, NVME_SEL_CURRENT, &v), 0);
		assert_int_equal(v, f[i].get);
		assert_int_equal(get_feature(b, f[i].fid, NVME_SEL_DEFAULT, &v), 0);
		assert_int_equal(v, f[i].preset);
		assert_int_equal(get_feature(b, f[i].fid, NVME_SEL_SUPPORTED, &v), 0);
		assert_int_equal(v, NVME_FEATURE_CAP_CHANGEABLE);
		assert_int_equal(set_feature(b, f[i].fid | 1u << 31, 0, NULL),
				 STATUS(NVME_SC_FEATURE_NOT_SAVEABLE));
	}
	assert_int_equal(set_feature(b, NVME_FID_POWER_MGMT, 1, NULL),
			 STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(get_feature(b, 0x7e, 0, NULL), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(set_feature(b, 0x7e, 0, NULL), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(get_feature(b, NVME_FID_ARBITRATION, 4, NULL),
			 STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

/* The page and the commands tell the same. */
static void the_features_there_are_are_listed_with_their_scope(void **state)
{
	struct bed *b = bed_enabled();
	uint32_t words[256], there = 0;

	(void)state;
	assert_int_equal(get_log(b, NVME_LID_FEATURE_EFFECTS, 0, NVME_FEATURES_LEN), 0);
	for (unsigned fid = 0; fid < 256; fid++)
		words[fid] = ld_le32(b->memory + fid * 4);
	for (unsigned fid = 0; fid < 256; fid++) {
		struct nvme_sqe s = bed_sqe(NVME_ADMIN_GET_FEATURES, 1, 0);
		uint16_t status;
		uint64_t v;

		s.cdw10 = fid | NVME_SEL_SUPPORTED << 8;
		status = bed_exec(&b->admin, &s, &v);
		assert_int_equal(status, words[fid] ? 0 : STATUS(NVME_SC_INVALID_FIELD));
		there += words[fid] != 0;
		if (words[fid])
			assert_int_equal(words[fid],
					 NVME_FEATURE_FSUPP | (v & NVME_FEATURE_CAP_PER_NS
								       ? NVME_FEATURE_SCOPE_NS
								       : NVME_FEATURE_SCOPE_CTRL));
	}
	assert_int_equal(there, 13);
	bed_destroy(b);
}

static uint16_t protect(struct bed *b, uint32_t nsid, uint32_t how)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_SET_FEATURES, nsid, 0);

	s.cdw10 = NVME_FID_WRITE_PROTECT;
	s.cdw11 = how;
	return bed_exec(&b->admin, &s, NULL);
}

static void a_host_may_protect_a_namespace_from_writes(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct nvme_sqe w = bed_sqe(NVME_IO_WRITE, 1, 512);
	struct nvme_sqe get = bed_sqe(NVME_ADMIN_GET_FEATURES, 1, 0);
	struct cursor c = page(b);
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ns ns;
	struct bed_cmd *held = bed_send(&b->admin, &aer);
	uint64_t v;

	(void)state;
	assert_int_equal(set_feature(b, NVME_FID_ASYNC_EVENT, NVME_OAES_NS_ATTR, NULL), 0);
	assert_int_equal(protect(b, 1, 1), 0);
	assert_true(held->answered);
	assert_int_equal(held->cqe.result, NVME_AER_RESULT(2, 0, NVME_LID_CHANGED_NS));
	nvme_rw_set(&w, 0, 1, 0);
	assert_int_equal(bed_exec(&b->io, &w, NULL), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	get.cdw10 = NVME_FID_WRITE_PROTECT;
	assert_int_equal(bed_exec(&b->admin, &get, &v), 0);
	assert_int_equal(v, 1);
	get.cdw10 |= NVME_SEL_DEFAULT << 8;
	assert_int_equal(bed_exec(&b->admin, &get, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(identify(b, NVME_CNS_NS, 1), 0);
	nvme_id_ns_get(&c, &ns);
	assert_int_equal(ns.nsattr, NVME_NSATTR_WRITE_PROTECTED);
	assert_int_equal(protect(b, 1, 0), 0);
	assert_int_equal(bed_exec(&b->io, &w, NULL), 0);
	/* What was written is there for good by then, or it is not protected. */
	assert_int_equal(b->slow.flushes, 1);
	b->slow.fail = -EIO;
	assert_int_equal(protect(b, 1, 1), STATUS(NVME_SC_WRITE_FAULT));
	assert_int_equal(b->slow.flushes, 2);
	assert_int_equal(bed_exec(&b->io, &w, NULL), 0);
	/* Until the next power cycle, and for ever, there is not; nor what is served so. */
	assert_int_equal(protect(b, 1, 2), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(protect(b, 1, 3), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(protect(b, 2, 0), STATUS(NVME_SC_FEATURE_NOT_CHANGEABLE));
	assert_int_equal(protect(b, 2, 1), 0);
	assert_int_equal(protect(b, 3, 1), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(protect(b, 0, 1), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(protect(b, NVME_NSID_ALL, 1), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(identify(b, NVME_CNS_CTRL, 0), 0);
	c = page(b);
	nvme_id_ctrl_get(&c, &ctrl);
	assert_int_equal(ctrl.nwpc, NVME_NWPC_PROTECT);
	bed_destroy(b);
}

static void what_a_host_can_deal_with_is_kept(void **state)
{
	struct nvme_sqe set = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, NVME_HOST_BEHAVIOR_LEN);
	struct nvme_sqe get = bed_sqe(NVME_ADMIN_GET_FEATURES, 0, NVME_HOST_BEHAVIOR_LEN);
	struct bed *b = bed_enabled();

	(void)state;
	set.cdw10 = get.cdw10 = NVME_FID_HOST_BEHAVIOR;
	memset(b->memory, 0, NVME_HOST_BEHAVIOR_LEN);
	b->memory[0] = 1;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), 0);
	memset(b->memory, 0xee, 600);
	assert_int_equal(bed_exec(&b->admin, &get, NULL), 0);
	for (int i = 0; i < 600; i++)
		assert_int_equal(b->memory[i], i == 0 ? 1 : i < 512 ? 0 : 0xee);
	get.cdw10 |= NVME_SEL_DEFAULT << 8;
	assert_int_equal(bed_exec(&b->admin, &get, NULL), 0);
	assert_int_equal(b->memory[0], 0);
	b->memory[1] = 2;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), STATUS(NVME_SC_INVALID_FIELD));
	set.sgl.len = 511;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), STATUS(NVME_SC_SGL_INVALID_DATA));
	bed_destroy(b);
}

static void what_is_no_value_of_a_feature_is_refused(void **state)
{
	static const struct {
		uint8_t fid;
		uint32_t dw11;
		uint16_t status;
	} f[] = {
		{NVME_FID_TEMP_THRESHOLD, 1 << 16, STATUS(NVME_SC_INVALID_FIELD)}, /* sensor 1 */
		{NVME_FID_TEMP_THRESHOLD, 2 << 20, STATUS(NVME_SC_INVALID_FIELD)},
		{NVME_FID_TEMP_THRESHOLD, 0xf << 16 | 350, 0}, /* all sensors */
		{NVME_FID_ERROR_RECOVERY, 1 << 16, STATUS(NVME_SC_INVALID_FIELD)},
		{NVME_FID_KEEP_ALIVE, UINT32_MAX, STATUS(NVME_SC_KAT_INVALID)},
		{NVME_FID_IOCS_PROFILE, 1, STATUS(NVME_SC_IOCS_COMBINATION_REJECTED)},
	};
	struct bed *b = bed_enabled();
	uint64_t v;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++)
		assert_int_equal(set_feature(b, f[i].fid, f[i].dw11, NULL), f[i].status);
	assert_int_equal(get_feature(b, NVME_FID_TEMP_THRESHOLD, 0, &v), 0);
	assert_int_equal(v, 350);
	assert_int_equal(set_feature(b, NVME_FID_KEEP_ALIVE, 4100, &v), 0);
	assert_int_equal(v, 5000); /* KAS */
	assert_int_equal(get_feature(b, NVME_FID_KEEP_ALIVE, 0, &v), 0);
	assert_int_equal(v, 5000);
	bed_destroy(b);
}

static void the_host_identifier_is_that_of_connect(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_GET_FEATURES, 0, 16);
	uint8_t want[16];

	(void)state;
	memset(want, 0x77, sizeof(want));
	s.cdw10 = NVME_FID_HOST_ID;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_FIELD)); /* 64 bit */
	s.cdw11 = 1;
	assert_int_equal(bed_exec(&b->admin, &s, NULL), 0);
	assert_memory_equal(b->memory, want, 16);
	assert_int_equal(set_feature(b, NVME_FID_HOST_ID, 1, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	bed_destroy(b);
}

/* --- discovery ----------------------------------------------------------------------------------
 */

static struct bed *bed_discovering(void)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	strcpy(a.data.subnqn, NVMF_DISCOVERY_NQN);
	a.co.kato_ms = 0;
	bed_queue_open(b, &b->admin, 0);
	assert_int_equal(bed_connect(&b->admin, &a, NULL), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 0);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	return b;
}

static void the_discovery_log_shows_the_address_the_host_came_to(void **state)
{
	struct bed *b = bed_discovering();
	struct target_port v6 = {.ops = &bed_ops,
				 .adrfam = NVMF_ADRFAM_IPV6,
				 .wildcard = true,
				 .traddr = "::",
				 .trsvcid = "4420"};
	struct target_port named = {.ops = &bed_ops,
				    .adrfam = NVMF_ADRFAM_IPV6,
				    .traddr = "2001:db8::1",
				    .trsvcid = "4421"};
	struct nvmf_disc_hdr hdr;
	struct nvmf_disc_entry e;
	struct cursor c;
	char text[257];

	(void)state;
	target_port_add(&b->target, &v6); /* cannot be named to a host that came by IPv4 */
	target_port_add(&b->target, &named);
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 0, 5 * 1024), 0);
	c = cursor_init(b->memory, 5 * 1024);
	nvmf_disc_hdr_get(&c, &hdr);
	assert_int_equal(hdr.numrec, 4);
	assert_int_equal(hdr.recfmt, 0);
	assert_int_equal(hdr.genctr, b->target.genctr);
	nvmf_disc_entry_get(&c, &e);
	assert_int_equal(e.subtype, NVMF_SUBTYPE_DISCOVERY);
	assert_string_equal(e.subnqn, NVMF_DISCOVERY_NQN);
	nvmf_disc_entry_get(&c, &e);
	assert_int_equal(e.trtype, NVMF_TRTYPE_RDMA);
	assert_int_equal(e.adrfam, NVMF_ADRFAM_IPV4);
	assert_int_equal(e.subtype, NVMF_SUBTYPE_NVM);
	assert_int_equal(e.cntlid, NVMF_CNTLID_DYNAMIC);
	assert_true(e.asqsz >= 32);
	assert_string_equal(e.subnqn, BED_NQN);
	nvmf_unpad(text, e.traddr, sizeof(e.traddr));
	assert_string_equal(text, "192.0.2.7");
	nvmf_unpad(text, e.trsvcid, sizeof(e.trsvcid));
	assert_string_equal(text, "4420");
	assert_int_equal(e.tsas[0], BED_TSAS);
	nvmf_disc_entry_get(&c, &e);
	nvmf_disc_entry_get(&c, &e);
	nvmf_unpad(text, e.traddr, sizeof(e.traddr));
	assert_string_equal(text, "2001:db8::1");
	/* What lies behind the last entry is zero, and so is a stretch of nothing else. */
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 0, 1 << 20), 0);
	assert_int_equal(ld_le64(b->memory + 8), 4);
	for (int i = 5 * 1024; i < 1 << 20; i++)
		assert_int_equal(b->memory[i], 0);
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 5 * 1024, 4096), 0);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(b->memory[i], 0);
	/* The header alone, and an entry from its middle. */
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 0, 16), 0);
	assert_int_equal(ld_le64(b->memory + 8), 4);
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 2048 + 256, 256), 0);
	assert_string_equal((char *)b->memory, BED_NQN);
	bed_destroy(b);
}

static void a_host_sees_only_what_it_may_use(void **state)
{
	static const char *const hosts[] = {"nqn.2026-11.io.example:other"};
	struct bed *b = bed_discovering();

	(void)state;
	b->subsys.hosts = hosts;
	b->subsys.host_count = 1;
	assert_int_equal(get_log(b, NVME_LID_DISCOVERY, 0, 1024), 0);
	assert_int_equal(ld_le64(b->memory + 8), 1); /* the discovery subsystem itself */
	bed_destroy(b);
}

static void a_discovery_controller_does_discovery_only(void **state)
{
	struct bed *b = bed_discovering();
	struct nvme_id_ctrl id;
	struct cursor c = page(b);
	struct nvme_sqe abort_sqe = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed_connect a = bed_connect_args(1, 1);

	(void)state;
	assert_int_equal(identify(b, NVME_CNS_CTRL, 0), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_int_equal(id.cntrltype, NVME_CNTRLTYPE_DISCOVERY);
	assert_int_equal(id.nn, 0);
	assert_string_equal(id.subnqn, NVMF_DISCOVERY_NQN);
	assert_int_equal(identify(b, NVME_CNS_NS, 1), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(get_log(b, NVME_LID_SMART, 0, 512), STATUS(NVME_SC_INVALID_LOG_PAGE));
	assert_int_equal(bed_exec(&b->admin, &abort_sqe, NULL), STATUS(NVME_SC_INVALID_OPCODE));
	assert_int_equal(set_feature(b, NVME_FID_NUM_QUEUES, 0, NULL),
			 STATUS(NVME_SC_INVALID_FIELD));
	strcpy(a.data.subnqn, NVMF_DISCOVERY_NQN);
	bed_queue_open(b, &b->io, 1);
	assert_int_equal(bed_connect(&b->io, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	/* Without a keep-alive of its own it stays two minutes, and a little. */
	bed_queue_close(&b->io);
	b->now += 120 * NSEC_PER_SEC;
	target_tick(&b->target, b->now);
	b->now += 120 * NSEC_PER_SEC;
	target_tick(&b->target, b->now);
	b->now += 120 * NSEC_PER_SEC / 16;
	target_tick(&b->target, b->now);
	assert_true(b->admin.disconnect_asked);
	bed_destroy(b);
}

/* LPA, and "more" in a status, point to these pages. */
static void a_discovery_controller_has_the_pages_it_points_to(void **state)
{
	struct bed *b = bed_discovering();
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed_cmd *c = bed_send(&b->admin, &s);
	struct nvme_error_entry e;
	struct cursor cur;

	(void)state;
	assert_true(c->cqe.status & NVME_STATUS_MORE);
	bed_release(c);
	assert_int_equal(get_log(b, NVME_LID_ERROR, 0, 64), 0);
	cur = cursor_init(b->memory, 64);
	nvme_error_entry_get(&cur, &e);
	assert_int_equal(e.error_count, 1);
	assert_int_equal(get_log(b, NVME_LID_EFFECTS, 0, 4096), 0);
	assert_int_equal(ld_le32(b->memory + NVME_ADMIN_GET_LOG_PAGE * 4), NVME_EFFECT_CSUPP);
	assert_int_equal(ld_le32(b->memory + NVME_ADMIN_ABORT * 4), 0);
	for (int i = 1024; i < 2048; i++) /* it has no I/O queues */
		assert_int_equal(b->memory[i], 0);
	bed_destroy(b);
}

static void a_changed_discovery_log_is_told(void **state)
{
	struct bed *b = bed_discovering();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct target_port p = {.ops = &bed_ops, .traddr = "192.0.2.9"};
	struct bed_cmd *held = bed_send(&b->admin, &aer);
	uint64_t before = b->target.genctr;

	(void)state;
	assert_int_equal(set_feature(b, NVME_FID_ASYNC_EVENT, NVME_OAES_DISCOVERY, NULL), 0);
	target_port_add(&b->target, &p);
	target_tick(&b->target, b->now);
	assert_true(held->answered);
	assert_int_equal(held->cqe.result, NVME_AER_RESULT(2, 0xf0, 0x70));
	assert_true(b->target.genctr > before);
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identify_controller_tells_what_a_host_relies_on),
		cmocka_unit_test(identify_namespace_tells_size_format_and_protection),
		cmocka_unit_test(the_namespace_list_begins_after_the_given_id),
		cmocka_unit_test(namespace_descriptors_hold_the_identifiers),
		cmocka_unit_test(a_controller_is_what_subsystem_and_port_said_when_it_came),
		cmocka_unit_test(identify_tells_of_the_one_command_set),
		cmocka_unit_test(identify_structures_not_offered_are_refused),
		cmocka_unit_test(a_refused_command_is_in_the_error_log),
		cmocka_unit_test(smart_counts_commands_and_data),
		cmocka_unit_test(smart_sums_over_all_controllers_of_the_subsystem),
		cmocka_unit_test(smart_tells_how_busy_it_was_and_how_others_ended),
		cmocka_unit_test(the_supported_pages_are_those_there_are),
		cmocka_unit_test(any_stretch_of_a_page_can_be_had),
		cmocka_unit_test(pages_and_stretches_that_are_none_are_refused),
		cmocka_unit_test(a_log_page_takes_no_more_memory_than_there_is_of_it),
		cmocka_unit_test(features_are_of_no_namespace),
		cmocka_unit_test(the_number_of_queues_is_granted_up_to_the_limit),
		cmocka_unit_test(a_subsystem_and_a_port_may_allow_less),
		cmocka_unit_test(kept_features_come_back_and_defaults_stay),
		cmocka_unit_test(the_features_there_are_are_listed_with_their_scope),
		cmocka_unit_test(a_host_may_protect_a_namespace_from_writes),
		cmocka_unit_test(what_a_host_can_deal_with_is_kept),
		cmocka_unit_test(what_is_no_value_of_a_feature_is_refused),
		cmocka_unit_test(the_host_identifier_is_that_of_connect),
		cmocka_unit_test(the_discovery_log_shows_the_address_the_host_came_to),
		cmocka_unit_test(a_host_sees_only_what_it_may_use),
		cmocka_unit_test(a_discovery_controller_does_discovery_only),
		cmocka_unit_test(a_discovery_controller_has_the_pages_it_points_to),
		cmocka_unit_test(a_changed_discovery_log_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
