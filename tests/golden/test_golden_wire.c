/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The codecs against what Linux's rxe and CM put on a wire: whatever is decoded encodes to the
 * same bytes. Arguments: patterns (glob) of pcap files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "roce_pcap.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/icrc.h"

#define SKIPPED 77

static struct roce_packets captured;
static const struct roce_packet *captured_end;

/* What a set of captures must hold, lest a test pass by having seen nothing. */
static const uint8_t wanted_opcodes[] = {
	OPCODE_RC_SEND_FIRST,
	OPCODE_RC_SEND_MIDDLE,
	OPCODE_RC_SEND_LAST,
	OPCODE_RC_SEND_LAST_WITH_IMM,
	OPCODE_RC_SEND_ONLY,
	OPCODE_RC_SEND_ONLY_WITH_IMM,
	OPCODE_RC_WRITE_FIRST,
	OPCODE_RC_WRITE_MIDDLE,
	OPCODE_RC_WRITE_LAST,
	OPCODE_RC_WRITE_LAST_WITH_IMM,
	OPCODE_RC_WRITE_ONLY,
	OPCODE_RC_WRITE_ONLY_WITH_IMM,
	OPCODE_RC_READ_REQUEST,
	OPCODE_RC_READ_RESPONSE_FIRST,
	OPCODE_RC_READ_RESPONSE_MIDDLE,
	OPCODE_RC_READ_RESPONSE_LAST,
	OPCODE_RC_READ_RESPONSE_ONLY,
	OPCODE_RC_ACKNOWLEDGE,
	OPCODE_RC_ATOMIC_ACKNOWLEDGE,
	OPCODE_RC_COMPARE_SWAP,
	OPCODE_RC_FETCH_ADD,
	OPCODE_RC_SEND_ONLY_WITH_INV,
	OPCODE_UC_SEND_FIRST,
	OPCODE_UC_SEND_MIDDLE,
	OPCODE_UC_SEND_LAST,
	OPCODE_UD_SEND_ONLY,
	OPCODE_UD_SEND_ONLY_WITH_IMM,
};

static const uint16_t wanted_mads[] = {
	CM_ATTR_REQ,  CM_ATTR_REJ,  CM_ATTR_REP,      CM_ATTR_RTU,
	CM_ATTR_DREQ, CM_ATTR_DREP, CM_ATTR_SIDR_REQ, CM_ATTR_SIDR_REP,
};

#define fail_at(p, ...)                                               \
	do {                                                          \
		print_error("%s: frame %d: ", (p)->file, (p)->frame); \
		fail_msg(__VA_ARGS__);                                \
	} while (0)

/* The MAD of a packet to QP1, or NULL. */
static const uint8_t *mad_of(const struct roce_packet *p)
{
	struct pkt_hdr h;
	int len = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);

	if (len < 0 || h.bth.dqpn != GSI_QPN)
		return NULL;
	assert_int_equal(h.bth.opcode, OPCODE_UD_SEND_ONLY);
	assert_int_equal(h.deth.qkey, GSI_QKEY);
	assert_int_equal(p->udp_len, len + MAD_LEN + ICRC_LEN);
	return p->udp + len;
}

static void headers_encode_to_the_bytes_they_were_read_from(void **state)
{
	size_t seen[256] = {0};

	(void)state;
	for (const struct roce_packet *p = captured.packet; p < captured_end; p++) {
		struct pkt_hdr h;
		uint8_t again[PKT_HDR_MAX];
		int len = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);

		if (len < 0)
			fail_at(p, "headers not understood");
		if (pkt_hdr_encode(&h, again) != (size_t)len || memcmp(again, p->udp, (size_t)len))
			fail_at(p, "%s: encoded differently", opcode_table[h.bth.opcode].name);
		if (!(opcode_table[h.bth.opcode].flags & OPF_PAYLOAD) &&
		    (size_t)len + ICRC_LEN != p->udp_len)
			fail_at(p, "%s: bytes left over", opcode_table[h.bth.opcode].name);
		seen[h.bth.opcode]++;
	}
	print_message("%zu packets:", captured.count);
	for (int op = 0; op < 256; op++)
		if (seen[op])
			print_message(" %s %zu", opcode_table[op].name, seen[op]);
	print_message("\n");
	for (size_t i = 0; i < ARRAY_SIZE(wanted_opcodes); i++)
		if (!seen[wanted_opcodes[i]])
			fail_msg("no %s in these captures", opcode_table[wanted_opcodes[i]].name);
}

static void icrcs_are_right_and_give_the_identification_away(void **state)
{
	size_t ipv4 = 0, ipv6 = 0;

	(void)state;
	for (const struct roce_packet *p = captured.packet; p < captured_end; p++) {
		uint16_t id = 0xffff;
		struct icrc c;

		if (!icrc_check(&p->flow, p->ip_id, p->udp, p->udp_len))
			fail_at(p, "the ICRC is wrong");
		if (!icrc_solve_ip_id(&p->flow, p->udp, p->udp_len, &id) || id != p->ip_id)
			fail_at(p, "identification %#x, found %#x", p->ip_id, id);
		/* as a sender makes it, payload apart */
		c = icrc_begin(&p->flow, p->ip_id, p->udp_len, p->udp, BTH_LEN);
		c = icrc_update(c, p->udp + BTH_LEN, p->udp_len - BTH_LEN - ICRC_LEN);
		assert_int_equal(icrc_end(c), ld_le32(p->udp + p->udp_len - ICRC_LEN));
		if (gid_is_ipv4(&p->flow.dgid))
			ipv4++;
		else
			ipv6++;
	}
	print_message("%zu over IPv4, %zu over IPv6\n", ipv4, ipv6);
	assert_true(ipv4 > 0 && ipv6 > 0);
}

static void any_flipped_bit_is_detected(void **state)
{
	uint32_t rnd = 1;
	size_t flips = 0;

	(void)state;
	for (const struct roce_packet *p = captured.packet; p < captured_end; p++) {
		uint8_t *copy = test_malloc(p->udp_len);

		memcpy(copy, p->udp, p->udp_len);
		for (int i = 0; i < 16; i++) {
			size_t bit = (rnd = rnd * 1664525 + 1013904223) % (8 * p->udp_len);

			if (bit / 8 == 4) /* FECN and BECN are not covered */
				continue;
			copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (icrc_check(&p->flow, p->ip_id, copy, p->udp_len))
				fail_at(p, "bit %zu can flip unnoticed", bit);
			copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
			flips++;
		}
		test_free(copy);
	}
	print_message("%zu flips\n", flips);
	assert_true(flips > captured.count);
}

static void cm_mads_encode_to_the_bytes_they_were_read_from(void **state)
{
	size_t seen[CM_ATTR_APR + 1] = {0};

	(void)state;
	for (const struct roce_packet *p = captured.packet; p < captured_end; p++) {
		const uint8_t *mad = mad_of(p);
		uint8_t again[MAD_LEN];
		struct cm_msg m;
		int err;

		if (!mad)
			continue;
		err = cm_msg_decode(&m, mad);
		assert_in_range(m.hdr.attr_id, CM_ATTR_REQ, CM_ATTR_APR);
		seen[m.hdr.attr_id]++;
		if (m.hdr.attr_id > CM_ATTR_SIDR_REP) {
			assert_int_equal(err, -EOPNOTSUPP);
			continue;
		}
		if (err)
			fail_at(p, "kind %#x: %s", m.hdr.attr_id, strerror(-err));
		memset(again, 0xaa, sizeof(again));
		cm_msg_encode(&m, again);
		if (memcmp(mad, again, MAD_LEN))
			fail_at(p, "kind %#x: encoded differently", m.hdr.attr_id);
	}
	print_message("MADs:");
	for (int attr = 0; attr <= CM_ATTR_APR; attr++)
		if (seen[attr])
			print_message(" %#x %zu", attr, seen[attr]);
	print_message("\n");
	for (size_t i = 0; i < ARRAY_SIZE(wanted_mads); i++)
		if (!seen[wanted_mads[i]])
			fail_msg("no CM message %#x in these captures", wanted_mads[i]);
}

static void a_req_says_what_the_kernel_meant(void **state)
{
	size_t reqs = 0, from_kernel = 0, ipv6 = 0;

	(void)state;
	for (const struct roce_packet *p = captured.packet; p < captured_end; p++) {
		const uint8_t *mad = mad_of(p);
		uint8_t again[CM_IP_HDR_LEN];
		struct cm_ip_hdr ip;
		struct cm_msg m;

		if (!mad || cm_msg_decode(&m, mad) || m.hdr.attr_id != CM_ATTR_REQ)
			continue;
		reqs++;
		assert_int_equal(cm_ip_hdr_decode(&ip, m.req.private_data), 0);
		cm_ip_hdr_encode(&ip, again);
		assert_memory_equal(again, m.req.private_data, CM_IP_HDR_LEN);
		/* The same thing said twice: in the header of IP and of the CM. */
		assert_true(gid_equal(&ip.src, &p->flow.sgid));
		assert_true(gid_equal(&ip.dst, &p->flow.dgid));
		assert_true(gid_equal(&m.req.primary.local_gid, &p->flow.sgid));
		assert_true(gid_equal(&m.req.primary.remote_gid, &p->flow.dgid));
		ipv6 += ip.ip_version == 6;
		assert_int_equal(m.req.service_id & ~CM_SERVICE_PORT_MASK,
				 CM_SERVICE_ID(CM_PS_TCP, 0));
		if (!m.req.primary.flow_label) /* one capture has a REQ from a script */
			continue;
		from_kernel++;
		/* rdma_cm makes the flow label of both ports. */
		assert_int_equal(m.req.primary.flow_label,
				 (ip.port * 31 + (m.req.service_id & CM_SERVICE_PORT_MASK)) &
					 0xfffff);
		/* packet life time 18 until Linux 6.1, 16 in 6.12 */
		if (m.req.primary.local_ack_timeout != 17)
			assert_int_equal(m.req.primary.local_ack_timeout, 19);
		assert_int_equal(m.req.remote_cm_response_timeout, 20);
		assert_int_equal(m.req.local_cm_response_timeout, 20);
		assert_int_equal(m.req.max_cm_retries, 15);
		assert_int_equal(m.req.pkey, PKEY_DEFAULT);
		assert_int_equal(m.req.primary.local_lid, 0xffff);
		assert_int_equal(m.req.alternate.local_lid, 0);
	}
	print_message("%zu REQs, %zu over IPv6\n", reqs, ipv6);
	assert_true(ipv6 > 0 && from_kernel > ipv6);
}

/* A data packet of a connection goes out from the port that the REQ's flow label gives. */
static void data_leaves_from_the_port_of_the_flow_label(void **state)
{
	size_t checked = 0;

	(void)state;
	for (const struct roce_packet *req = captured.packet; req < captured_end; req++) {
		const uint8_t *mad = mad_of(req);
		struct cm_msg m;

		if (!mad || cm_msg_decode(&m, mad) || m.hdr.attr_id != CM_ATTR_REQ)
			continue;
		for (const struct roce_packet *p = req; p < captured_end; p++) {
			if (p->file != req->file || ld_be24(p->udp + 5) != m.req.local_qpn ||
			    !gid_equal(&p->flow.dgid, &req->flow.sgid))
				continue;
			assert_int_equal(p->flow.sport, flow_sport(m.req.primary.flow_label, 0, 0));
			checked++;
			break;
		}
	}
	print_message("%zu flows\n", checked);
	assert_true(checked > 0);
}

static size_t load(const char *pattern)
{
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		int err = roce_pcap_read(&captured, g.gl_pathv[i]);

		if (err) {
			fprintf(stderr, "%s: %s\n", g.gl_pathv[i],
				err == -EBADMSG ? "not a whole pcap file of Ethernet frames"
						: strerror(-err));
			exit(1);
		}
	}
	captured_end = captured.packet + captured.count;
	globfree(&g);
	return captured.count;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_encode_to_the_bytes_they_were_read_from),
		cmocka_unit_test(icrcs_are_right_and_give_the_identification_away),
		cmocka_unit_test(any_flipped_bit_is_detected),
		cmocka_unit_test(cm_mads_encode_to_the_bytes_they_were_read_from),
		cmocka_unit_test(a_req_says_what_the_kernel_meant),
		cmocka_unit_test(data_leaves_from_the_port_of_the_flow_label),
	};
	bool optional = argc > 1 && !strcmp(argv[1], "--optional");
	const char *elsewhere = getenv("WEFT_CAPTURES");
	char pattern[4096];

	if (optional && !elsewhere) {
		puts("SKIP: WEFT_CAPTURES names no directory with the full set of captures");
		return SKIPPED;
	}
	if (optional) {
		snprintf(pattern, sizeof(pattern), "%s/*/rxe-*.pcap", elsewhere);
		if (!load(pattern)) {
			printf("SKIP: WEFT_CAPTURES: no captures match %s\n", pattern);
			return SKIPPED;
		}
	}
	for (int i = 1 + optional; i < argc; i++)
		load(argv[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
