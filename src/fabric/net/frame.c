/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/opcode.h"

#define TTL_USUAL 64

struct frame *frame_alloc(struct frame_pool *p)
{
	struct frame *f = p->free;

	if (f)
		p->free = f->next;
	else
		f = malloc(sizeof(*f));
	if (!f)
		abort(); /* a simulation without memory has no result */
	p->out++;
	f->next = NULL;
	f->mad = NULL;
	return f;
}

void frame_free(struct frame_pool *p, struct frame *f)
{
	assert(p->out);
	p->out--;
	free(f->mad);
	f->next = p->free;
	p->free = f;
}

void frame_pool_fini(struct frame_pool *p)
{
	struct frame *f;

	assert(!p->out);
	while ((f = p->free)) {
		p->free = f->next;
		free(f);
	}
}

static void take(struct frame *f, const struct packet_tx *t, uint32_t bytes)
{
	f->flow = *t->flow;
	f->bytes = bytes;
	f->priority = f->sl = flow_priority(t->flow);
	f->ttl = t->flow->ttl ? t->flow->ttl : TTL_USUAL;
	f->kind = FRAME_PACKET;
	f->hdr_len = t->hdr_len;
	f->pad = t->pad;
	f->payload_len = t->payload_len;
	memcpy(f->hdr, t->hdr, t->hdr_len);
	f->is_data = t->payload_len && t->hdr[0] != OPCODE_CNP;
	if (t->payload_len && t->payload_len <= FRAME_SAYS_MAX) {
		uint8_t *at = f->says;

		for (size_t i = 0; i < t->niov; i++) {
			memcpy(at, t->iov[i].iov_base, t->iov[i].iov_len);
			at += t->iov[i].iov_len;
		}
	}
}

void frame_of_packet(struct frame *f, const struct packet_tx *t)
{
	uint32_t bytes = FRAME_ETHERNET + FRAME_IP_UDP + (uint32_t)packet_tx_len(t) + ICRC_LEN;

	if (!gid_is_ipv4(&t->flow->dgid))
		bytes += 20; /* the longer IP header */
	take(f, t, max_of(bytes, FRAME_MIN));
}

void frame_of_ib_packet(struct frame *f, const struct packet_tx *t)
{
	take(f, t, FRAME_IB + (uint32_t)packet_tx_len(t) + ICRC_LEN);
}

void frame_to_packet(const struct frame *f, uint8_t *room, struct packet_rx *ret)
{
	uint8_t *payload = room + PKT_HDR_MAX;
	size_t len = (size_t)f->hdr_len + f->payload_len + f->pad;

	assert(f->payload_len <= 4096);
	memcpy(payload - f->hdr_len, f->hdr, f->hdr_len);
	if (f->payload_len <= FRAME_SAYS_MAX)
		memcpy(payload, f->says, f->payload_len);
	else
		memset(payload, 0, FRAME_SAYS_MAX);
	*ret = (struct packet_rx){.flow = f->flow, .data = payload - f->hdr_len, .len = len};
}

static void make(struct frame *f, enum frame_kind kind, uint32_t bytes)
{
	memset(&f->flow, 0, sizeof(f->flow));
	f->bytes = bytes;
	f->priority = PRIORITIES - 1;
	f->kind = (uint8_t)kind;
	f->is_data = false;
	f->hdr_len = 0;
	f->payload_len = f->pad = 0;
}

void frame_of_pause(struct frame *f, uint8_t mask, uint16_t quanta)
{
	make(f, FRAME_PAUSE, FRAME_MIN);
	f->mask = mask;
	for (unsigned i = 0; i < PRIORITIES; i++)
		f->quanta[i] = mask >> i & 1 ? quanta : 0;
}

void frame_of_credit(struct frame *f, const struct credit *c)
{
	make(f, FRAME_CREDIT, CREDIT_LEN);
	f->credit = *c;
}

void frame_of_management(struct frame *f, const uint8_t mad[MAD_LEN])
{
	make(f, FRAME_MANAGEMENT, FRAME_IB + BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN);
	f->mad = malloc(MAD_LEN);
	if (!f->mad)
		abort();
	memcpy(f->mad, mad, MAD_LEN);
	f->slid = f->dlid = LID_PERMISSIVE;
}
