/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/tcp/tx.h"

#include <assert.h>
#include <string.h>

#include "wire/crc32c.h"

static uint8_t zeroes[64 << 10]; /* nobody writes to them */

void tcp_tx_init(struct tcp_tx *tx)
{
	*tx = (struct tcp_tx){0};
	list_init(&tx->outs);
}

void tcp_out_init(struct tcp_out *o, void (*sent)(struct tcp_out *o))
{
	list_init(&o->link);
	o->sent = sent;
	tcp_out_clear(o);
}

void tcp_out_clear(struct tcp_out *o)
{
	assert(!tcp_out_waits(o));
	o->head_len = o->tail_len = 0;
	o->data = NULL;
	o->iov = NULL;
	o->data_len = o->zero_len = 0;
}

static size_t out_len(const struct tcp_out *o)
{
	return (size_t)o->head_len + o->data_len + o->zero_len + o->tail_len;
}

/* --- PDUs --------------------------------------------------------------------------------------
 */

static struct wcursor pdu_begin(uint8_t *at, size_t room, const struct tcp_tx *tx, uint8_t type,
				uint8_t flags, uint32_t data_len)
{
	struct wcursor w = wcursor_init(at, room);
	struct nvme_tcp_ch ch = {.type = type, .flags = flags, .hlen = nvme_tcp_hlen(type)};
	bool hdgst = tx->hdgst && nvme_tcp_has_digests(type);

	ch.plen = ch.hlen;
	if (hdgst) {
		ch.flags |= NVME_TCP_HDGST;
		ch.plen += NVME_TCP_DIGEST_LEN;
	}
	if (data_len && nvme_tcp_has_digests(type)) {
		ch.pdo = nvme_tcp_pdo(ch.hlen, hdgst, tx->pda);
		ch.plen = ch.pdo;
		if (tx->ddgst) {
			ch.flags |= NVME_TCP_DDGST;
			ch.plen += NVME_TCP_DIGEST_LEN;
		}
	}
	ch.plen += data_len;
	nvme_tcp_ch_put(&w, &ch);
	/* Not w: to copy what was just written in parts, processors wait until that, and all that
	 * was written before it, a command's data, is in the cache. */
	return wcursor_init(at + NVME_TCP_CH_LEN, room - NVME_TCP_CH_LEN);
}

/* The header at `at` is written: its digest, and padding. The length of it all. */
static uint8_t pdu_end(uint8_t *at, size_t room)
{
	struct cursor c = cursor_init(at, NVME_TCP_CH_LEN);
	struct nvme_tcp_ch ch;
	uint8_t len;

	nvme_tcp_ch_get(&c, &ch);
	len = ch.hlen;
	if (ch.flags & NVME_TCP_HDGST) {
		assert(len + (size_t)NVME_TCP_DIGEST_LEN <= room);
		st_le32(at + len, crc32c(at, len));
		len += NVME_TCP_DIGEST_LEN;
	}
	assert(len <= room && ch.pdo <= room);
	if (ch.pdo > len) {
		memset(at + len, 0, ch.pdo - (size_t)len);
		len = ch.pdo;
	}
	return len;
}

struct wcursor tcp_out_pdu(struct tcp_out *o, const struct tcp_tx *tx, uint8_t type, uint8_t flags,
			   uint32_t data_len)
{
	assert(!o->data_len && !o->zero_len);
	return pdu_begin(o->head + o->head_len, sizeof(o->head) - o->head_len, tx, type, flags,
			 data_len);
}

void tcp_out_pdu_end(struct tcp_out *o)
{
	o->head_len += pdu_end(o->head + o->head_len, sizeof(o->head) - o->head_len);
}

static uint32_t digest_of(const struct tcp_out *o)
{
	struct iovec one = {(void *)(uintptr_t)o->data, o->data_len};
	struct pieces p = pieces_from(o->iov ? o->iov : &one, o->iov ? o->iov_from : 0);
	uint32_t state = CRC32C_BEGIN;

	for (uint32_t left = o->data_len; left;) {
		struct iovec v = pieces_take(&p, left);

		state = crc32c_more(state, v.iov_base, v.iov_len);
		left -= (uint32_t)v.iov_len;
	}
	for (uint32_t left = o->zero_len, n; left; left -= n) {
		n = min_of(left, (uint32_t)sizeof(zeroes));
		state = crc32c_more(state, zeroes, n);
	}
	return crc32c_end(state);
}

static void data_end(struct tcp_out *o, const struct tcp_tx *tx)
{
	if (!tx->ddgst)
		return;
	st_le32(o->tail, digest_of(o));
	o->tail_len = NVME_TCP_DIGEST_LEN;
}

void tcp_out_data(struct tcp_out *o, const struct tcp_tx *tx, const void *data, uint32_t len,
		  uint32_t zero_len)
{
	assert(!o->tail_len);
	o->data = data;
	o->data_len = len;
	o->zero_len = zero_len;
	data_end(o, tx);
}

void tcp_out_pieces(struct tcp_out *o, const struct tcp_tx *tx, const struct iovec *iov,
		    size_t from, uint32_t len)
{
	assert(!o->tail_len);
	o->iov = iov;
	o->iov_from = from;
	o->data_len = len;
	data_end(o, tx);
}

struct wcursor tcp_out_tail(struct tcp_out *o, const struct tcp_tx *tx, uint8_t type)
{
	return pdu_begin(o->tail + o->tail_len, sizeof(o->tail) - o->tail_len, tx, type, 0, 0);
}

void tcp_out_tail_end(struct tcp_out *o)
{
	o->tail_len += pdu_end(o->tail + o->tail_len, sizeof(o->tail) - o->tail_len);
}

/* --- sending ------------------------------------------------------------------------------------
 */

static bool is_bare(const struct tcp_out *o)
{
	return !o->data_len && !o->zero_len;
}

void tcp_tx_push(struct tcp_tx *tx, struct tcp_out *o)
{
	assert(!tcp_out_waits(o));
	list_push_tail(&tx->outs, &o->link);
	tx->bytes += out_len(o);
	tx->bare += is_bare(o);
}

struct iovs {
	struct iovec *iov;
	unsigned int count, room;
	size_t skip;
};

/* False: there is no room for all of it. */
static bool add(struct iovs *v, const void *p, size_t len)
{
	size_t skip = min_of(v->skip, len);

	v->skip -= skip;
	if (len == skip)
		return true;
	if (v->count == v->room)
		return false;
	v->iov[v->count++] = (struct iovec){(uint8_t *)p + skip, len - skip};
	return true;
}

static bool add_data(struct iovs *v, const struct tcp_out *o)
{
	struct pieces p;

	if (!o->iov)
		return add(v, o->data, o->data_len);
	p = pieces_from(o->iov, o->iov_from);
	for (size_t left = o->data_len; left;) {
		struct iovec next = pieces_take(&p, left);

		if (!add(v, next.iov_base, next.iov_len))
			return false;
		left -= next.iov_len;
	}
	return true;
}

static bool add_zeroes(struct iovs *v, size_t len)
{
	for (size_t n; len; len -= n) {
		n = min_of(len, sizeof(zeroes));
		if (!add(v, zeroes, n))
			return false;
	}
	return true;
}

unsigned int tcp_tx_iov(const struct tcp_tx *tx, struct iovec *iov, unsigned int room)
{
	struct iovs v = {.iov = iov, .room = room, .skip = tx->done};

	list_for_each(o, &tx->outs, const struct tcp_out, link)
		if (!add(&v, o->head, o->head_len) || !add_data(&v, o) ||
		    !add_zeroes(&v, o->zero_len) || !add(&v, o->tail, o->tail_len))
			break;
	return v.count;
}

void tcp_tx_sent(struct tcp_tx *tx, size_t n)
{
	assert(n <= tx->bytes);
	tx->bytes -= n;
	tx->done += n;
	while (!list_empty(&tx->outs)) {
		struct tcp_out *o = list_entry(tx->outs.next, struct tcp_out, link);
		size_t len = out_len(o);

		if (tx->done < len)
			return;
		tx->done -= len;
		list_remove(&o->link);
		tx->bare -= is_bare(o);
		if (o->sent)
			o->sent(o);
	}
}

size_t tcp_tx_went(const struct tcp_tx *tx, const struct tcp_out *o)
{
	return tx->outs.next == &o->link ? tx->done : 0;
}

void tcp_tx_drop(struct tcp_tx *tx)
{
	while (list_pop_head(&tx->outs))
		;
	tx->done = tx->bytes = 0;
	tx->bare = 0;
}
