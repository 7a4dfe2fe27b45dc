/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What two responders answer to the same faulty requests (tests/vm/wire/errors.c), each asked by
 * the other: Linux's rxe and weft. They differ in one: to a SEND that is longer than the receive
 * rxe answers with a remote operational error, where the standard has an invalid request (IBA
 * volume 1, table 58). A requester gets the status that goes with the answer, whichever it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "roce_pcap.h"
#include "wire/bth.h"

static struct roce_packets rxe, weft;

/* The NAKs of a capture in order, a repeated one once. */
static size_t naks(const struct roce_packets *all, uint8_t *ret, size_t room)
{
	uint32_t dqpn = UINT32_MAX;
	size_t n = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct roce_packet *p = &all->packet[i];
		struct pkt_hdr h;

		assert_true(pkt_hdr_decode(&h, p->udp, p->udp_len - 4) > 0);
		if (h.bth.opcode != OPCODE_RC_ACKNOWLEDGE || (h.aeth.syndrome & 0x60) != AETH_NAK ||
		    h.bth.dqpn == dqpn)
			continue;
		dqpn = h.bth.dqpn;
		assert_true(n < room);
		ret[n++] = h.aeth.syndrome & 0x1f;
	}
	return n;
}

static void expect(const struct roce_packets *all, const uint8_t *want, size_t count)
{
	uint8_t got[32];

	assert_int_equal(naks(all, got, sizeof(got)), count);
	assert_memory_equal(got, want, count);
}

#define A NAK_REMOTE_ACCESS
#define I NAK_INVALID_REQ
#define O NAK_REMOTE_OP

static void rxe_takes_a_long_send_for_an_operational_error(void **state)
{
	static const uint8_t answers[] = {A, A, A, A, A, A, A, A, I, I, O, O, O};

	(void)state;
	expect(&rxe, answers, sizeof(answers));
}

/* Of rxe no atomic at an odd address comes. */
static void weft_answers_as_the_standard_says(void **state)
{
	static const uint8_t answers[] = {A, A, A, A, A, A, A, A, I, I, I, O};

	(void)state;
	expect(&weft, answers, sizeof(answers));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rxe_takes_a_long_send_for_an_operational_error),
		cmocka_unit_test(weft_answers_as_the_standard_says),
	};

	if (argc != 3 || roce_pcap_read(&rxe, argv[1]) < 0 || roce_pcap_read(&weft, argv[2]) < 0) {
		fprintf(stderr, "usage: %s RXE.pcap WEFT.pcap\n", argv[0]);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
