/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where Linux's rxe breaks a rule, or breaks down: what weft's responder makes of the very packets.
 * They are replayed to a queue pair that expects them, with its own keys and addresses in the place
 * of those that were recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "../unit/rnic_bed.h"
#include "roce_pcap.h"
#include "wire/bth.h"

static struct roce_packets rxe_panic, rxe_long_read, rxe_shifted;

enum { SEQUENCE = 0x60, INVALID = 0x61, ACCESS = 0x62, ACKNOWLEDGED = 0x1f };

static struct pkt_hdr header(const struct roce_packet *p, const uint8_t **ret_payload,
			     uint32_t *ret_len)
{
	struct pkt_hdr h;
	int len = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);

	assert_true(len > 0);
	*ret_payload = p->udp + len;
	*ret_len = (uint32_t)(p->udp_len - ICRC_LEN - (size_t)len - h.bth.pad);
	return h;
}

static bool is_request(const struct pkt_hdr *h)
{
	return !(opcode_table[h->bth.opcode].flags & OPF_RESPONSE);
}

/* The next answer's syndrome; 0: there is none. */
static uint8_t answer(struct bed *b)
{
	struct bed_pkt *p = bed_tx1(b, 1);

	return p ? p->h.aeth.syndrome : 0;
}

/* Side 1 in the place of the responder, which expects the capture's first PSN. */
static struct bed *responder(const struct roce_packets *all)
{
	const uint8_t *payload;
	uint32_t len;
	struct pkt_hdr h = header(&all->packet[0], &payload, &len);

	return bed_open(&(struct bed_opts){.psn = {h.bth.psn, 0}});
}

/* A window of side 1's whole memory, as the capture's responder had bound one. */
static struct rnic_mw *bound_window(struct bed *b)
{
	struct rnic_send_wr wr = {.wr_id = 1, .opcode = RNIC_WR_BIND_MW};

	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_2, &wr.bind.mw), 0);
	wr.bind.mr = b->side[1].mr;
	wr.bind.rkey = rnic_mw_rkey(wr.bind.mw) ^ 1;
	wr.bind.addr = bed_remote_addr(b, 1, 0);
	wr.bind.length = BED_MEM;
	wr.bind.access = RNIC_ACCESS_REMOTE_WRITE;
	assert_int_equal(rnic_post_send(b->side[1].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, false, 1, RNIC_WC_SUCCESS);
	return wr.bind.mw;
}

/*
 * The second SEND that invalidates the same window is the last that Linux 6.1 received: "Kernel
 * panic - not syncing: Fatal exception in interrupt", in __rxe_put. weft refuses it.
 */
static void a_window_invalidated_twice_is_an_access_error(void **state)
{
	struct bed *b = responder(&rxe_panic);
	struct rnic_mw *mw = bound_window(b);
	unsigned sent = 0, answered_by_rxe = 0;
	uint32_t rkey = rnic_mw_rkey(mw), first = b->opts.psn[0];

	(void)state;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 100), 0);
	for (size_t i = 0; i < rxe_panic.count; i++) {
		const uint8_t *payload;
		uint32_t len;
		struct pkt_hdr h = header(&rxe_panic.packet[i], &payload, &len);

		if (!is_request(&h)) {
			assert_int_equal(h.bth.psn, first); /* never of the second */
			answered_by_rxe++;
			continue;
		}
		assert_int_equal(h.bth.opcode, OPCODE_RC_SEND_ONLY_WITH_INV);
		h.ieth_rkey = rkey;
		bed_forge(b, 0, h, payload, len);
		if (h.bth.psn == first)
			assert_int_equal(answer(b), ACKNOWLEDGED);
		else if (++sent == 1)
			assert_int_equal(answer(b), ACCESS);
		assert_int_equal(answer(b), 0);
	}
	assert_int_equal(answered_by_rxe, 2);
	assert_true(sent > 1); /* weft asked again and again */
	bed_expect(b, 1, true, 0, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 1, RNIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

/* rxe asks for 2 GiB and a byte; the longest message has 2 GiB (IBA volume 1, 9.7.4.1.6). */
static void a_read_that_is_too_long_is_invalid(void **state)
{
	struct bed *b = responder(&rxe_long_read);
	const uint8_t *payload;
	uint32_t len;
	struct pkt_hdr h = header(&rxe_long_read.packet[0], &payload, &len);

	(void)state;
	assert_int_equal(rxe_long_read.count, 2);
	assert_int_equal(h.bth.opcode, OPCODE_RC_READ_REQUEST);
	assert_int_equal(h.reth.dma_len, 0x80000001);
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.va = bed_remote_addr(b, 1, 0);
	bed_forge(b, 0, h, payload, len);
	assert_int_equal(answer(b), INVALID);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	h = header(&rxe_long_read.packet[1], &payload, &len); /* what weft said then */
	assert_int_equal(h.aeth.syndrome, INVALID);
	bed_close(b);
}

/*
 * A WRITE of eight packets, whose fourth is lost. When rxe sends it again, an empty WRITE ONLY
 * takes the first PSN, and every packet the PSN of its successor. Up to the fourth they are
 * duplicates; where the message should end it goes on: it is longer than it said (IBA volume 1,
 * table 58).
 */
static void a_write_whose_psns_shift_is_invalid(void **state)
{
	struct bed *b = responder(&rxe_shifted);
	const uint8_t *payload;
	uint32_t len, first = b->opts.psn[0];
	bool again = false;

	(void)state;
	for (size_t i = 0; i < rxe_shifted.count; i++) {
		struct pkt_hdr h = header(&rxe_shifted.packet[i], &payload, &len);
		uint32_t nth = h.bth.psn - first;
		bool end = i == rxe_shifted.count - 1;

		if (i && nth == 0) {
			again = true;
			assert_int_equal(h.bth.opcode, OPCODE_RC_WRITE_ONLY);
			assert_int_equal(h.reth.dma_len, 0);
		} else if (nth == again) {
			assert_int_equal(h.bth.opcode, OPCODE_RC_WRITE_FIRST);
			assert_int_equal(h.reth.dma_len, 8 * 1024);
		}
		h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
		h.reth.va = bed_remote_addr(b, 1, 0);
		bed_forge(b, 0, h, payload, len);
		if (end)
			assert_int_equal(answer(b), INVALID);
		else if (!again && nth == 4)
			assert_int_equal(answer(b), SEQUENCE);
		else if (again && nth < 3) /* these it has */
			assert_int_equal(answer(b), ACKNOWLEDGED);
		assert_int_equal(answer(b), 0);
	}
	assert_true(again);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	bed_close(b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_invalidated_twice_is_an_access_error),
		cmocka_unit_test(a_read_that_is_too_long_is_invalid),
		cmocka_unit_test(a_write_whose_psns_shift_is_invalid),
	};
	struct roce_packets *const captures[] = {&rxe_panic, &rxe_long_read, &rxe_shifted};

	for (int i = 0; i < 3; i++) {
		if (argc != 4 || roce_pcap_read(captures[i], argv[i + 1]) < 0) {
			fprintf(stderr, "usage: %s PANIC.pcap LONG-READ.pcap SHIFTED.pcap\n",
				argv[0]);
			return 1;
		}
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
