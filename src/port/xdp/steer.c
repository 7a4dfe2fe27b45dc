/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The program is written out by its instructions: it is short, and so neither building nor running
 * takes a compiler for BPF, or a loader, whose library would come into every program that uses us.
 */
#include "port/xdp/steer.h"

#include <endian.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/path_probe.h"

#define ADDRESSES_MAX 256
#define INSNS_MAX     80

static int bpf(int cmd, union bpf_attr *attr)
{
	long rc = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return rc < 0 ? -errno : (int)rc;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Where things stand in a frame. */
enum {
	TYPE = 12,
	V4 = 14,
	V4_FRAGMENT = V4 + 6,
	V4_PROTO = V4 + 9,
	V4_DST = V4 + 16,
	V4_UDP = V4 + 20,
	V6 = 14,
	V6_PROTO = V6 + 6,
	V6_DST = V6 + 24,
	V6_UDP = V6 + 40,
	/* Within UDP: header and the first bytes of the BTH. */
	UDP_DPORT = 2,
	UDP_PAYLOAD = 8,
	UDP_SLOT = UDP_PAYLOAD + 5,
	UDP_SEEN = UDP_PAYLOAD + 8,
};

/* Registers with a meaning of their own: the call's five are the helpers'. */
enum { CTX = BPF_REG_6, AT = BPF_REG_7, END = BPF_REG_8, V = BPF_REG_5, KEY = -16 };

enum label { TO_STACK, TO_UDP, TO_V4, LABELS };

struct program {
	struct bpf_insn v[INSNS_MAX];
	unsigned n, label[LABELS];
};

static void emit(struct program *p, int code, int dst, int src, int off, int32_t imm)
{
	p->v[p->n++] = (struct bpf_insn){.code = (uint8_t)code,
					 .dst_reg = (uint8_t)dst & 0xf,
					 .src_reg = (uint8_t)src & 0xf,
					 .off = (int16_t)off,
					 .imm = imm};
}

static void load(struct program *p, int size, int dst, int src, int off)
{
	emit(p, BPF_LDX | BPF_MEM | size, dst, src, off, 0);
}

static void store(struct program *p, int size, int off, int src)
{
	emit(p, BPF_STX | BPF_MEM | size, BPF_REG_10, src, off, 0);
}

static void move(struct program *p, int dst, int src, int plus)
{
	emit(p, BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0);
	if (plus)
		emit(p, BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, plus);
}

static void set(struct program *p, int dst, int32_t imm)
{
	emit(p, BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm);
}

/* Jumps forward, to a label whose place is not known yet: its number stands there meanwhile. */
static void jump_if(struct program *p, int op, int dst, int32_t imm, enum label to)
{
	/* 32 bits: what is compared was loaded as no more, and constants are not to be extended. */
	emit(p, BPF_JMP32 | op | BPF_K, dst, 0, (int)to, imm);
}

static void unless_has(struct program *p, int len, enum label to)
{
	move(p, BPF_REG_4, AT, len);
	emit(p, BPF_JMP | BPF_JGT | BPF_X, BPF_REG_4, END, (int)to, 0);
}

static void load_map(struct program *p, int dst, int fd)
{
	emit(p, BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, fd);
	emit(p, 0, 0, 0, 0, 0);
}

static void here(struct program *p, enum label l)
{
	p->label[l] = p->n;
}

static void settle_jumps(struct program *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		int class = BPF_CLASS(p->v[i].code), op = BPF_OP(p->v[i].code);

		if ((class == BPF_JMP || class == BPF_JMP32) && op != BPF_CALL && op != BPF_EXIT)
			p->v[i].off = (int16_t)(p->label[p->v[i].off] - i - 1);
	}
}

static void write_program(struct program *p, const struct steer *s, uint8_t slot, uint32_t longest)
{
	move(p, CTX, BPF_REG_1, 0);
	load(p, BPF_W, AT, CTX, offsetof(struct xdp_md, data));
	load(p, BPF_W, END, CTX, offsetof(struct xdp_md, data_end));
	unless_has(p, V4_UDP + UDP_SEEN, TO_STACK);
	/* What would not fit would be lost. */
	move(p, BPF_REG_4, AT, (int)longest);
	emit(p, BPF_JMP | BPF_JLT | BPF_X, BPF_REG_4, END, TO_STACK, 0);
	load(p, BPF_H, V, AT, TYPE);
	jump_if(p, BPF_JEQ, V, htobe16(0x0800), TO_V4);
	jump_if(p, BPF_JNE, V, htobe16(0x86dd), TO_STACK);

	unless_has(p, V6_UDP + UDP_SEEN, TO_STACK);
	load(p, BPF_B, V, AT, V6_PROTO);
	jump_if(p, BPF_JNE, V, IPPROTO_UDP, TO_STACK);
	for (int i = 0; i < 16; i += 4) {
		load(p, BPF_W, V, AT, V6_DST + i);
		store(p, BPF_W, KEY + i, V);
	}
	emit(p, BPF_ALU64 | BPF_ADD | BPF_K, AT, 0, 0, V6_UDP);
	emit(p, BPF_JMP | BPF_JA, 0, 0, TO_UDP, 0);

	here(p, TO_V4);
	load(p, BPF_B, V, AT, V4);
	jump_if(p, BPF_JNE, V, 0x45, TO_STACK);
	load(p, BPF_B, V, AT, V4_PROTO);
	jump_if(p, BPF_JNE, V, IPPROTO_UDP, TO_STACK);
	/* DF and nothing else, as the ICRC takes for granted. */
	load(p, BPF_H, V, AT, V4_FRAGMENT);
	jump_if(p, BPF_JNE, V, htobe16(0x4000), TO_STACK);
	set(p, V, 0);
	store(p, BPF_DW, KEY, V);
	set(p, V, (int32_t)htobe32(0xffff));
	store(p, BPF_W, KEY + 8, V);
	load(p, BPF_W, V, AT, V4_DST);
	store(p, BPF_W, KEY + 12, V);
	emit(p, BPF_ALU64 | BPF_ADD | BPF_K, AT, 0, 0, V4_UDP);

	here(p, TO_UDP);
	load(p, BPF_H, V, AT, UDP_DPORT);
	jump_if(p, BPF_JNE, V, htobe16(ROCEV2_UDP_PORT), TO_STACK);
	load(p, BPF_B, V, AT, UDP_SLOT);
	jump_if(p, BPF_JNE, V, slot, TO_STACK);
	load(p, BPF_W, V, AT, UDP_PAYLOAD);
	jump_if(p, BPF_JEQ, V, (int32_t)htobe32(PATH_PROBE_ASK), TO_STACK);
	load_map(p, BPF_REG_1, s->addresses);
	move(p, BPF_REG_2, BPF_REG_10, KEY);
	emit(p, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, TO_STACK, 0);
	load_map(p, BPF_REG_1, s->sockets);
	load(p, BPF_W, BPF_REG_2, CTX, offsetof(struct xdp_md, rx_queue_index));
	set(p, BPF_REG_3, XDP_PASS); /* for a queue without a socket */
	emit(p, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);

	here(p, TO_STACK);
	set(p, BPF_REG_0, XDP_PASS);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	settle_jumps(p);
}

/* ---- maps and program in the kernel ---------------------------------------------------------- */

static int map_create(uint32_t type, uint32_t key_len, uint32_t entries)
{
	union bpf_attr a = {.map_type = type,
			    .key_size = key_len,
			    .value_size = sizeof(uint32_t),
			    .max_entries = entries};

	return bpf(BPF_MAP_CREATE, &a);
}

static int map_put(int map, const void *key, uint32_t value)
{
	union bpf_attr a = {
		.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)&value};

	return bpf(BPF_MAP_UPDATE_ELEM, &a);
}

int steer_open(struct steer *s, uint8_t slot, uint32_t longest, uint32_t queues,
	       const char **ret_what)
{
	static const char licence[] = "Dual BSD/GPL";
	struct program p = {0};
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP,
			    .expected_attach_type = BPF_XDP,
			    .license = (uintptr_t)licence,
			    .prog_name = "weft"};
	int rc;

	*s = (struct steer){-1, -1, -1, -1, false};
	*ret_what = "a BPF map";
	rc = s->addresses = map_create(BPF_MAP_TYPE_HASH, sizeof(struct gid), ADDRESSES_MAX);
	if (rc >= 0)
		rc = s->sockets = map_create(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), queues);
	if (rc >= 0) {
		*ret_what = "the XDP program";
		write_program(&p, s, slot, longest);
		a.insns = (uintptr_t)p.v;
		a.insn_cnt = p.n;
		rc = s->prog = bpf(BPF_PROG_LOAD, &a);
	}
	if (rc >= 0)
		return 0;
	steer_close(s);
	return rc;
}

static int attach(const struct steer *s, uint32_t ifindex, uint32_t flags)
{
	union bpf_attr a = {.link_create = {.prog_fd = (uint32_t)s->prog,
					    .target_ifindex = ifindex,
					    .attach_type = BPF_XDP,
					    .flags = flags}};

	return bpf(BPF_LINK_CREATE, &a);
}

int steer_attach(struct steer *s, uint32_t ifindex)
{
	s->link = attach(s, ifindex, XDP_FLAGS_DRV_MODE);
	if (s->link == -EBUSY || s->link == -EEXIST || s->link == -EPERM)
		return s->link == -EEXIST ? -EBUSY : s->link;
	if (s->link >= 0)
		return 0;
	s->link = attach(s, ifindex, XDP_FLAGS_SKB_MODE);
	s->generic = true;
	return s->link < 0 ? s->link == -EEXIST ? -EBUSY : s->link : 0;
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void steer_close(struct steer *s)
{
	drop(&s->link);
	drop(&s->prog);
	drop(&s->sockets);
	drop(&s->addresses);
}

int steer_add_socket(struct steer *s, uint32_t queue, int fd)
{
	return map_put(s->sockets, &queue, (uint32_t)fd);
}

int steer_add_address(struct steer *s, const struct gid *g)
{
	return map_put(s->addresses, g, 1);
}

void steer_drop_address(struct steer *s, const struct gid *g)
{
	union bpf_attr a = {.map_fd = (uint32_t)s->addresses, .key = (uintptr_t)g};

	(void)bpf(BPF_MAP_DELETE_ELEM, &a);
}
