/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What ports offer, and namespaces and subsystems that leave while they are in service. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"
#include "wire/nvme_log.h"

#define OTHER_NQN "nqn.2026-11.io.example:other"

static unsigned gone; /* namespaces and subsystems that told it */

static void ns_gone(struct target_ns *ns)
{
	assert_ptr_equal(ns->gone, ns_gone);
	gone++;
}

static void subsys_gone(struct target_subsys *s)
{
	assert_true(list_empty(&s->ctrls) && list_empty(&s->flushing));
	gone++;
}

static int begin(void **state)
{
	(void)state;
	gone = 0;
	return 0;
}

static struct nvme_sqe rw(uint8_t opcode, uint32_t nsid)
{
	struct nvme_sqe s = bed_sqe(opcode, nsid, nsid == 5 ? 4096 : 512);

	nvme_rw_set(&s, 0, 1, 0);
	return s;
}

static uint16_t read_ns(struct bed *b, uint32_t nsid)
{
	struct nvme_sqe s = rw(NVME_IO_READ, nsid);

	return bed_exec(&b->io, &s, NULL);
}

static uint16_t set_events(struct bed *b, uint32_t bits)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);

	s.cdw10 = NVME_FID_ASYNC_EVENT;
	s.cdw11 = bits;
	return bed_exec(&b->admin, &s, NULL);
}

static uint16_t get_log(struct bed_queue *q, uint8_t lid, uint32_t len)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_GET_LOG_PAGE, 0, len);
	struct nvme_get_log g = {.lid = lid, .len = len};

	nvme_get_log_to_sqe(&g, &s);
	return bed_exec(q, &s, NULL);
}

/* --- ports ------------------------------------------------------------------------------------ */

/* BED_NQN and OTHER_NQN; a second port, at 192.0.2.8. */
struct two {
	struct bed *b;
	struct target_subsys other;
	struct target_port second;
	struct target_subsys *only_first[1], *only_other[1];
};

static void two_init(struct two *w)
{
	*w = (struct two){.b = bed_create()};
	strcpy(w->other.nqn, OTHER_NQN);
	assert_int_equal(target_subsys_add(&w->b->target, &w->other), 0);
	w->second = (struct target_port){.ops = &bed_ops,
					 .adrfam = NVMF_ADRFAM_IPV4,
					 .traddr = "192.0.2.8",
					 .trsvcid = "4420"};
	target_port_add(&w->b->target, &w->second);
	w->only_first[0] = &w->b->subsys;
	w->only_other[0] = &w->other;
}

/* Connect by a new admin queue at port p; its status. */
static uint16_t connect_at(struct bed *b, struct bed_queue *q, struct target_port *p,
			   const char *nqn)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	memset(a.data.subnqn, 0, sizeof(a.data.subnqn));
	strcpy(a.data.subnqn, nqn);
	bed_queue_open(b, q, 0);
	q->tq.port = p;
	return bed_connect(q, &a, NULL);
}

static void a_port_offers_what_it_lists(void **state)
{
	struct two w;

	(void)state;
	two_init(&w);
	target_port_offer(&w.b->target, &w.b->port, w.only_first, 1);
	target_port_offer(&w.b->target, &w.second, w.only_other, 1);
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, OTHER_NQN),
			 STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	bed_queue_close(&w.b->admin);
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, BED_NQN), 0);
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN),
			 STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	bed_queue_close(&w.b->other);
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, OTHER_NQN), 0);
	bed_destroy(w.b);
}

static void enable_discovery(struct bed *b, struct bed_queue *q, struct target_port *p)
{
	assert_int_equal(connect_at(b, q, p, NVMF_DISCOVERY_NQN), 0);
	assert_int_equal(bed_property_set(q, NVME_PROP_CC, NVME_CC_EN), 0);
}

static void log_has(struct bed *b, struct bed_queue *q, const char *const *entries, unsigned count)
{
	struct cursor c;
	struct nvmf_disc_hdr hdr;

	assert_int_equal(get_log(q, NVME_LID_DISCOVERY, 8192), 0);
	c = cursor_init(b->memory, 8192);
	nvmf_disc_hdr_get(&c, &hdr);
	assert_int_equal(hdr.numrec, count);
	for (unsigned i = 0; i < count; i++) {
		struct nvmf_disc_entry e;
		char at[257];

		nvmf_disc_entry_get(&c, &e);
		nvmf_unpad(at, e.traddr, sizeof(e.traddr));
		assert_string_equal(e.subnqn, entries[2 * i]);
		assert_string_equal(at, entries[2 * i + 1]);
	}
}

static void discovery_shows_what_the_port_asked_offers(void **state)
{
	static const char *const at_first[] = {NVMF_DISCOVERY_NQN, "192.0.2.7", BED_NQN,
					       "192.0.2.7"};
	static const char *const at_second[] = {NVMF_DISCOVERY_NQN, "192.0.2.8", OTHER_NQN,
						"192.0.2.8"};
	static const char *const shared[] = {NVMF_DISCOVERY_NQN, "192.0.2.7", BED_NQN, "192.0.2.7",
					     NVMF_DISCOVERY_NQN, "192.0.2.8", BED_NQN, "192.0.2.8"};
	struct two w;

	(void)state;
	two_init(&w);
	target_port_offer(&w.b->target, &w.b->port, w.only_first, 1);
	target_port_offer(&w.b->target, &w.second, w.only_other, 1);
	enable_discovery(w.b, &w.b->admin, &w.b->port);
	enable_discovery(w.b, &w.b->other, &w.second);
	log_has(w.b, &w.b->admin, at_first, 2);
	log_has(w.b, &w.b->other, at_second, 2);
	/* Where both have it, a host learns of either way. */
	target_port_offer(&w.b->target, &w.second, NULL, 0);
	log_has(w.b, &w.b->admin, shared, 4);
	bed_destroy(w.b);
}

static void who_came_by_a_port_that_offers_it_no_more_has_to_go(void **state)
{
	struct two w;

	(void)state;
	two_init(&w);
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, BED_NQN), 0);
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN), 0);
	target_port_offer(&w.b->target, &w.second, w.only_other, 1);
	assert_false(w.b->admin.disconnect_asked);
	assert_true(w.b->other.disconnect_asked);
	assert_non_null(strstr(w.b->other.tq.why, "not offered"));
	bed_destroy(w.b);
}

static void a_port_that_is_removed_takes_its_connections_along(void **state)
{
	struct two w;

	(void)state;
	two_init(&w);
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, BED_NQN), 0);
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN), 0);
	target_port_remove(&w.b->target, &w.second);
	assert_true(w.b->other.disconnect_asked);
	assert_false(w.b->admin.disconnect_asked);
	bed_destroy(w.b);
	/* Nor does one that has come and not said Connect get in. */
	two_init(&w);
	w.b->other.tq.port = &w.second;
	target_port_remove(&w.b->target, &w.second);
	assert_int_not_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN), 0);
	bed_destroy(w.b);
}

static void a_port_is_renumbered_and_tells_of_others(void **state)
{
	static const char *const with_other[] = {
		NVMF_DISCOVERY_NQN, "192.0.2.7",	BED_NQN,
		"192.0.2.7",	    NVMF_DISCOVERY_NQN, "192.0.2.99"};
	const struct target_referral other = {.trtype = NVMF_TRTYPE_TCP,
					      .adrfam = NVMF_ADRFAM_IPV4,
					      .portid = 9,
					      .traddr = "192.0.2.99",
					      .trsvcid = "8009"};
	struct nvmf_disc_entry e;
	struct cursor c;
	struct two w;

	(void)state;
	two_init(&w);
	target_port_offer(&w.b->target, &w.b->port, w.only_first, 1);
	target_port_offer(&w.b->target, &w.second, w.only_other, 1);
	target_port_tell(&w.b->target, &w.b->port, 77, &other, 1);
	enable_discovery(w.b, &w.b->admin, &w.b->port);
	log_has(w.b, &w.b->admin, with_other, 3);
	c = cursor_init(w.b->memory + NVMF_DISC_HDR_LEN, 8192 - NVMF_DISC_HDR_LEN);
	nvmf_disc_entry_get(&c, &e);
	assert_int_equal(e.portid, 77);
	nvmf_disc_entry_get(&c, &e);
	nvmf_disc_entry_get(&c, &e);
	assert_int_equal(e.subtype, NVMF_SUBTYPE_REFERRAL);
	assert_int_equal(e.portid, 9);
	assert_int_equal(e.trtype, NVMF_TRTYPE_TCP);
	target_port_tell(&w.b->target, &w.b->port, 77, NULL, 0);
	log_has(w.b, &w.b->admin, with_other, 2);
	bed_destroy(w.b);
}

/* --- hosts ------------------------------------------------------------------------------------ */

static void hosts_that_may_no_longer_connect_have_to_go(void **state)
{
	static const char *const another[] = {"nqn.2026-11.io.example:another"};
	const char *with_own[2];
	char own[NVME_NQN_LEN];
	struct two w;

	(void)state;
	two_init(&w);
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, BED_NQN), 0);
	memcpy(own, w.b->admin.tq.owner->hostnqn, sizeof(own));
	with_own[0] = another[0];
	with_own[1] = own;
	target_subsys_allow(&w.b->subsys, with_own, 2);
	assert_false(w.b->admin.disconnect_asked);
	target_subsys_allow(&w.b->subsys, another, 1);
	assert_true(w.b->admin.disconnect_asked);
	assert_non_null(strstr(w.b->admin.tq.why, "may not use"));
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN),
			 STATUS(NVME_SC_CONNECT_INVALID_HOST));
	bed_destroy(w.b);
}

static void controllers_have_ids_of_the_range(void **state)
{
	struct two w;

	(void)state;
	two_init(&w);
	w.b->subsys.cntlid_min = w.b->subsys.cntlid_max = 500;
	assert_int_equal(connect_at(w.b, &w.b->admin, &w.b->port, BED_NQN), 0);
	assert_int_equal(w.b->admin.tq.owner->cntlid, 500);
	/* There is no other. */
	assert_int_equal(connect_at(w.b, &w.b->other, &w.second, BED_NQN),
			 NVME_SC_CONNECT_CTRL_BUSY);
	bed_destroy(w.b);
}

/* --- namespaces ------------------------------------------------------------------------------- */

static void a_namespace_that_leaves_is_told_and_has_no_more_commands(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct bed_cmd *held = bed_send(&b->admin, &aer);
	struct nvme_sqe list = bed_sqe(NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);

	(void)state;
	assert_int_equal(set_events(b, NVME_OAES_NS_ATTR), 0);
	assert_int_equal(read_ns(b, 5), 0);
	target_ns_remove(&b->subsys, &b->big, ns_gone);
	assert_int_equal(gone, 1); /* nothing was under way */
	assert_true(held->answered);
	assert_int_equal(held->cqe.result, NVME_AER_RESULT(2, 0x00, NVME_LID_CHANGED_NS));
	assert_int_equal(get_log(&b->admin, NVME_LID_CHANGED_NS, 4096), 0);
	assert_int_equal(ld_le32(b->memory), 5);
	assert_int_equal(read_ns(b, 5), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(read_ns(b, 1), 0);
	list.cdw10 = NVME_CNS_ACTIVE_NS_LIST;
	assert_int_equal(bed_exec(&b->admin, &list, NULL), 0);
	assert_int_equal(ld_le32(b->memory), 1);
	assert_int_equal(ld_le32(b->memory + 4), 2);
	assert_int_equal(ld_le32(b->memory + 8), 0);
	/* And comes back. */
	assert_int_equal(target_ns_add(&b->subsys, &b->big), 0);
	assert_int_equal(read_ns(b, 5), 0);
	bed_destroy(b);
}

/* Nor is it the one that it was: what is counted of each is never of two. */
static void a_namespace_is_no_other_whatever_its_nsid(void **state)
{
	struct target_ns same;
	struct two w;

	(void)state;
	two_init(&w);
	same = (struct target_ns){.nsid = 1, .store = w.b->slow.below, .lba_shift = 9};
	assert_int_equal(target_ns_add(&w.other, &same), 0);
	assert_true(same.number > w.b->big.number && w.b->big.number > w.b->ns.number);
	target_ns_remove(&w.other, &same, ns_gone);
	same.number = 0;
	assert_int_equal(target_ns_add(&w.other, &same), 0);
	assert_true(same.number > w.b->big.number + 1);
	bed_destroy(w.b);
}

static void commands_under_way_end_before_the_namespace_is_gone(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe read = rw(NVME_IO_READ, 1), write = rw(NVME_IO_WRITE, 1);
	struct bed_cmd *in_store, *in_fetch;

	(void)state;
	b->slow.hold = true;
	in_store = bed_send(&b->io, &read);
	b->io.hold_fetches = true;
	in_fetch = bed_send(&b->io, &write);
	b->io.hold_fetches = false;
	target_ns_remove(&b->subsys, &b->ns, ns_gone);
	assert_int_equal(read_ns(b, 1), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(gone, 0);
	slow_release(b);
	assert_true(in_store->answered);
	assert_int_equal(in_store->cqe.status, 0);
	assert_int_equal(gone, 0);
	bed_fetch_now(in_fetch);
	assert_true(in_fetch->answered);
	assert_int_equal(in_fetch->cqe.status, 0);
	assert_int_equal(gone, 1);
	bed_destroy(b);
}

static void a_namespace_is_not_gone_while_a_shutdown_flushes_it(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe write = rw(NVME_IO_WRITE, 1);

	(void)state;
	assert_int_equal(bed_exec(&b->io, &write, NULL), 0);
	b->slow.hold = true;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16 |
						  NVME_CC_SHN_NORMAL),
			 0);
	target_ns_remove(&b->subsys, &b->ns, ns_gone);
	assert_int_equal(gone, 0);
	slow_release(b);
	assert_int_equal(gone, 1);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false) & NVME_CSTS_SHST_MASK,
			 NVME_CSTS_SHST_DONE);
	bed_destroy(b);
}

/* --- subsystems ------------------------------------------------------------------------------- */

static void a_subsystem_that_leaves_ends_its_controllers_and_then_is_gone(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe read = rw(NVME_IO_READ, 1);
	struct bed_cmd *in_store;

	(void)state;
	b->slow.hold = true;
	in_store = bed_send(&b->io, &read);
	target_subsys_remove(&b->subsys, subsys_gone);
	assert_true(b->admin.disconnect_asked && b->io.disconnect_asked);
	assert_int_equal(connect_at(b, &b->other, &b->port, BED_NQN),
			 STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	bed_queue_close(&b->other);
	bed_queue_close(&b->admin);
	assert_int_equal(b->ctrls_gone, 1);
	bed_queue_close(&b->io);
	assert_int_equal(gone, 0); /* a store is still at work for it */
	slow_release(b);
	assert_true(in_store->answered);
	assert_int_equal(gone, 1);
	/* Its name is free again. */
	assert_int_equal(target_subsys_add(&b->target, &b->subsys), 0);
	assert_int_equal(connect_at(b, &b->admin, &b->port, BED_NQN), 0);
	bed_destroy(b);
}

static void a_subsystem_that_nobody_uses_is_gone_at_once(void **state)
{
	struct bed *b = bed_create();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct bed_cmd *held;

	(void)state;
	enable_discovery(b, &b->admin, &b->port);
	assert_int_equal(set_events(b, NVME_OAES_DISCOVERY), 0);
	held = bed_send(&b->admin, &aer);
	target_subsys_remove(&b->subsys, subsys_gone);
	assert_int_equal(gone, 1);
	target_tick(&b->target, b->now);
	assert_true(held->answered); /* the discovery log has changed */
	assert_int_equal(held->cqe.result, NVME_AER_RESULT(2, 0xf0, NVME_LID_DISCOVERY));
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_port_offers_what_it_lists, begin),
		cmocka_unit_test_setup(discovery_shows_what_the_port_asked_offers, begin),
		cmocka_unit_test_setup(who_came_by_a_port_that_offers_it_no_more_has_to_go, begin),
		cmocka_unit_test_setup(a_port_is_renumbered_and_tells_of_others, begin),
		cmocka_unit_test_setup(hosts_that_may_no_longer_connect_have_to_go, begin),
		cmocka_unit_test_setup(controllers_have_ids_of_the_range, begin),
		cmocka_unit_test_setup(a_port_that_is_removed_takes_its_connections_along, begin),
		cmocka_unit_test_setup(a_namespace_that_leaves_is_told_and_has_no_more_commands,
				       begin),
		cmocka_unit_test_setup(a_namespace_is_no_other_whatever_its_nsid, begin),
		cmocka_unit_test_setup(commands_under_way_end_before_the_namespace_is_gone, begin),
		cmocka_unit_test_setup(a_namespace_is_not_gone_while_a_shutdown_flushes_it, begin),
		cmocka_unit_test_setup(
			a_subsystem_that_leaves_ends_its_controllers_and_then_is_gone, begin),
		cmocka_unit_test_setup(a_subsystem_that_nobody_uses_is_gone_at_once, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
