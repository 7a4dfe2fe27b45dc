/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What rsockets put on the wire, against bytes laid out by hand from rdma-core's description. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "wire/rsocket.h"

static const uint8_t conn_bytes[RS_CONN_LEN] = {
	1,    2,    1,	  0x80, 0,    0,    0,	  4, /* version, iomap, 384 credits, 4 entries */
	0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 2,
	0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0, 1, 0, 0,
};

static void connection_data_are_40_bytes_in_network_order(void **state)
{
	uint8_t buf[RS_CONN_LEN], longer[56] = {0};
	struct rs_conn c;

	(void)state;
	assert_int_equal(rs_conn_decode(&c, conn_bytes, sizeof(conn_bytes)), 0);
	assert_int_equal(c.flags, RS_CONN_IOMAP);
	assert_int_equal(c.credits, 384);
	assert_int_equal(c.iomap_size, 4);
	assert_true(c.sgl.addr == 0x1112131415161718 && c.sgl.key == 0x21222324);
	assert_int_equal(c.sgl.length, 2);
	assert_true(c.data.addr == 0x3132333435363738 && c.data.key == 0x41424344);
	assert_int_equal(c.data.length, 65536);
	rs_conn_encode(&c, buf);
	assert_memory_equal(buf, conn_bytes, sizeof(buf));
	/* A REQ's private data are longer, and filled with zeros. */
	memcpy(longer, conn_bytes, sizeof(conn_bytes));
	assert_int_equal(rs_conn_decode(&c, longer, sizeof(longer)), 0);
}

static void connection_data_that_cannot_be_are_refused(void **state)
{
	uint8_t buf[RS_CONN_LEN];
	struct rs_conn c;

	(void)state;
	for (size_t len = 0; len < RS_CONN_LEN; len++)
		assert_int_equal(rs_conn_decode(&c, conn_bytes, len), -EBADMSG);
	memcpy(buf, conn_bytes, sizeof(buf));
	buf[0] = 2; /* version */
	assert_int_equal(rs_conn_decode(&c, buf, sizeof(buf)), -EBADMSG);
	memcpy(buf, conn_bytes, sizeof(buf));
	buf[23] = 0; /* no entry */
	assert_int_equal(rs_conn_decode(&c, buf, sizeof(buf)), -EBADMSG);
	memcpy(buf, conn_bytes, sizeof(buf));
	buf[37] = 0; /* no byte */
	assert_int_equal(rs_conn_decode(&c, buf, sizeof(buf)), -EBADMSG);
}

static void an_iomap_size_goes_through_eight_bits(void **state)
{
	static const struct {
		unsigned int entries;
		uint16_t on_wire;
	} table[] = {{0, 0},	 {1, 1},     {128, 128},     {129, 128},    {256, 256},
		     {600, 512}, {700, 512}, {32767, 32512}, {65535, 32512}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(rs_iomap_size(table[i].entries), table[i].on_wire);
}

static void immediate_data_have_the_type_in_their_upper_three_bits(void **state)
{
	(void)state;
	assert_true(rs_imm(RS_OP_DATA, 1000) == 1000);
	assert_true(rs_imm(RS_OP_SGL, 384) == 0x80000180);
	assert_true(rs_imm(RS_OP_IOMAP_SGL, 3) == 0xc0000003);
	assert_true(rs_imm(RS_OP_CTRL, RS_CTRL_DISCONNECT) == 0xe0000000);
	assert_true(rs_imm(RS_OP_CTRL, RS_CTRL_SHUTDOWN) == 0xe0000002);
	assert_int_equal(rs_imm_op(0xe0000002), RS_OP_CTRL);
	assert_int_equal(rs_imm_value(0xe0000002), RS_CTRL_SHUTDOWN);
}

static void headers_of_datagrams_tell_queue_pair_and_sender(void **state)
{
	static const uint8_t udp4[] = {0x55, 0x55, 0x55, 0x55, 4,  0, 16, 0,
				       0,    0x12, 0x34, 0x56, 10, 0, 0,  1};
	static const uint8_t ud4[] = {4, 8, 0x1f, 0x90, 10, 0, 0, 1};
	uint8_t buf[DS_UDP_LEN_MAX], ud[DS_UD_LEN_MAX];
	struct ds_udp_hdr h;
	struct ds_ud_hdr d;

	(void)state;
	assert_int_equal(ds_udp_decode(&h, udp4, sizeof(udp4)), DS_UDP_IPV4_LEN);
	assert_int_equal(h.qpn, 0x123456);
	assert_int_equal(h.op, RS_OP_DATA);
	assert_memory_equal(h.addr, udp4 + 12, 4);
	assert_int_equal(ds_udp_encode(&h, buf), sizeof(udp4));
	assert_memory_equal(buf, udp4, sizeof(udp4));
	for (size_t len = 0; len < sizeof(udp4); len++)
		assert_int_equal(ds_udp_decode(&h, udp4, len), -EBADMSG);
	buf[6] = 28; /* a length that is not IPv4's */
	assert_int_equal(ds_udp_decode(&h, buf, sizeof(buf)), -EBADMSG);
	assert_int_equal(ds_ud_decode(&d, ud4, sizeof(ud4)), DS_UD_IPV4_LEN);
	assert_int_equal(d.port, 8080);
	assert_int_equal(ds_ud_encode(&d, ud), sizeof(ud4));
	assert_memory_equal(ud, ud4, sizeof(ud4));
	d = (struct ds_ud_hdr){
		.version = 6, .port = 1, .flowinfo = 0x01020304, .addr = {0xfe, 0x80}};
	assert_int_equal(ds_ud_encode(&d, ud), DS_UD_IPV6_LEN);
	assert_int_equal(ud[8], 0xfe);
	assert_memory_equal(ud + 4, &d.flowinfo, 4);
	assert_int_equal(ds_ud_decode(&d, ud, sizeof(ud)), DS_UD_IPV6_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection_data_are_40_bytes_in_network_order),
		cmocka_unit_test(connection_data_that_cannot_be_are_refused),
		cmocka_unit_test(an_iomap_size_goes_through_eight_bits),
		cmocka_unit_test(immediate_data_have_the_type_in_their_upper_three_bits),
		cmocka_unit_test(headers_of_datagrams_tell_queue_pair_and_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
