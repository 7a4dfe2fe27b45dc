/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What rsockets put on the wire, version 1 (rdma-core's librdmacm/docs/rsocket): the private data
 * in which two stream sockets tell each other of their buffers, the 32 bits of immediate data that
 * come with every RDMA WRITE, and the headers before datagrams, in UDP and in UD.
 */
#ifndef WEFT_WIRE_RSOCKET_H
#define WEFT_WIRE_RSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* ---- connections ----------------------------------------------------------------------------- */

#define RS_CONN_LEN	40
#define RS_CONN_VERSION 1

/* An entry of a target SGL as it lies in memory: the peer writes it in this host's byte order. */
struct rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

/* An entry of a target iomap, likewise. */
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};

enum {
	RS_CONN_NET = 1 << 0,	/* the sender is big-endian: so are the entries it reads */
	RS_CONN_IOMAP = 1 << 1, /* its iomap stands behind its target SGL */
};

struct rs_conn { /* of the sender, for its peer to use */
	uint8_t flags;
	uint16_t credits;    /* how many messages it can take at first */
	uint16_t iomap_size; /* entries; on the wire a byte, coarse above 128 */
	struct rs_sge sgl;   /* length in entries */
	struct rs_sge data;  /* the first receive buffer */
};

/* -EBADMSG if it is too short, of another version, or has no room for an entry or a byte. */
int rs_conn_decode(struct rs_conn *, const void *buf, size_t len) must_use;
void rs_conn_encode(const struct rs_conn *, uint8_t buf[RS_CONN_LEN]);
/* What an iomap of that many entries comes to when its size went through the byte. */
uint16_t rs_iomap_size(unsigned int entries);

/* ---- immediate data -------------------------------------------------------------------------- */

enum rs_op {			  /* bits 31:29 */
	     RS_OP_DATA = 0,	  /* so many bytes came into the current receive buffer */
	     RS_OP_SGL = 4,	  /* credits; perhaps the target SGL has a new entry */
	     RS_OP_IOMAP_SGL = 6, /* that entry of the iomap is new */
	     RS_OP_CTRL = 7,
};

enum rs_ctrl {
	RS_CTRL_DISCONNECT = 0,
	RS_CTRL_KEEPALIVE = 1,
	RS_CTRL_SHUTDOWN = 2,
};

#define RS_IMM_VALUE_MAX 0x1fffffffu

static inline uint32_t rs_imm(enum rs_op op, uint32_t value)
{
	return (uint32_t)op << 29 | (value & RS_IMM_VALUE_MAX);
}

static inline enum rs_op rs_imm_op(uint32_t imm)
{
	return (enum rs_op)(imm >> 29);
}

static inline uint32_t rs_imm_value(uint32_t imm)
{
	return imm & RS_IMM_VALUE_MAX;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

#define DS_UDP_TAG	0x55555555u
#define DS_UDP_LEN_MAX	28
#define DS_UD_LEN_MAX	24
#define DS_UDP_IPV4_LEN 16
#define DS_UDP_IPV6_LEN 28
#define DS_UD_IPV4_LEN	8
#define DS_UD_IPV6_LEN	24

/* Before what goes by UDP: by it the two sides learn each other's queue pairs. */
struct ds_udp_hdr {
	uint8_t version;  /* of IP: 4 or 6 */
	enum rs_op op;	  /* RS_OP_DATA: data follows; RS_OP_CTRL: it is an answer */
	uint32_t qpn;	  /* the sender's */
	uint8_t addr[16]; /* the sender's; IPv4: its first four bytes */
};

/* Returns the header's length, or -EBADMSG. */
int ds_udp_decode(struct ds_udp_hdr *, const void *buf, size_t len) must_use;
size_t ds_udp_encode(const struct ds_udp_hdr *, uint8_t buf[DS_UDP_LEN_MAX]);

/* Before what goes by UD: who sent it. */
struct ds_ud_hdr {
	uint8_t version;
	uint16_t port;
	uint32_t flowinfo; /* as sin6_flowinfo has it: network order, untouched */
	uint8_t addr[16];
};

int ds_ud_decode(struct ds_ud_hdr *, const void *buf, size_t len) must_use;
size_t ds_ud_encode(const struct ds_ud_hdr *, uint8_t buf[DS_UD_LEN_MAX]);

#endif
