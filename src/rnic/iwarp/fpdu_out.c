/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rnic/iwarp/fpdu_out.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "wire/crc32c.h"

struct putting {
	struct fpdu_out *out;
	struct fpdu_batch *b;
	uint64_t length_at; /* in the stream */
	uint32_t crc;
};

static void add_piece(struct putting *p, const void *data, size_t len)
{
	struct fpdu_batch *b = p->b;
	struct iovec *last = b->iovs ? &b->iov[b->iovs - 1] : NULL;

	if (last && (const uint8_t *)last->iov_base + last->iov_len == data)
		last->iov_len += len;
	else
		b->iov[b->iovs++] = (struct iovec){(void *)data, len};
	b->bytes += len;
	p->out->at += len;
	if (p->out->crc)
		p->crc = crc32c_more(p->crc, data, len);
}

static void add_marker(struct putting *p)
{
	uint8_t *m = p->b->room + p->b->used;
	uint64_t at = p->out->at;

	mpa_marker_put(m, at > p->length_at ? (uint16_t)(at - p->length_at) : 0);
	p->b->used += MPA_MARKER_LEN;
	add_piece(p, m, MPA_MARKER_LEN);
}

/* With the markers that come to stand among it. */
static void add(struct putting *p, const uint8_t *data, size_t len)
{
	while (len) {
		size_t n = len;

		if (p->out->markers) {
			if (mpa_to_marker(p->out->at) == 0)
				add_marker(p);
			n = min_of(mpa_to_marker(p->out->at), len);
		}
		add_piece(p, data, n);
		data += n;
		len -= n;
	}
}

/* The same, of bytes that are kept in the room. */
static void add_copy(struct putting *p, const void *data, size_t len)
{
	uint8_t *to = p->b->room + p->b->used;

	memcpy(to, data, len);
	p->b->used += len;
	add(p, to, len);
}

static size_t total(const struct iovec *v, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += v[i].iov_len;
	return len;
}

/* At worst each marker cuts a piece in two, and is one. */
bool fpdu_out_fits(const struct fpdu_out *out, const struct fpdu_batch *b, size_t ulpdu,
		   size_t pieces)
{
	size_t markers =
		out->markers ? mpa_fpdu_len(ulpdu) / (MPA_MARKER_SPACING - MPA_MARKER_LEN) + 1 : 0;
	size_t room = MPA_LENGTH_LEN + FPDU_HEADERS_MAX + FPDU_COPY_MAX + MPA_PAD_MAX +
		      MPA_CRC_LEN + markers * MPA_MARKER_LEN;

	return b->iovs + pieces + 3 + 2 * markers <= b->iovs_max && b->used + room <= b->room_max;
}

bool fpdu_out_put(struct fpdu_out *out, struct fpdu_batch *b, const uint8_t *hdr, size_t hdr_len,
		  const struct iovec *payload, size_t n)
{
	static const uint8_t zeros[MPA_PAD_MAX];
	size_t len = total(payload, n), ulpdu = hdr_len + len;
	struct putting p = {.out = out, .b = b, .length_at = out->at, .crc = CRC32C_BEGIN};
	uint8_t length[MPA_LENGTH_LEN], crc[MPA_CRC_LEN] = {0};

	assert(hdr_len <= FPDU_HEADERS_MAX && ulpdu <= UINT16_MAX);
	if (!fpdu_out_fits(out, b, ulpdu, n)) {
		assert(b->iovs);
		return false;
	}
	if (out->markers && mpa_to_marker(out->at) == 0)
		p.length_at += MPA_MARKER_LEN;
	st_be16(length, (uint16_t)ulpdu);
	add_copy(&p, length, sizeof(length));
	add_copy(&p, hdr, hdr_len);
	for (size_t i = 0; i < n; i++) {
		if (len <= FPDU_COPY_MAX)
			add_copy(&p, payload[i].iov_base, payload[i].iov_len);
		else
			add(&p, payload[i].iov_base, payload[i].iov_len);
	}
	add_copy(&p, zeros, mpa_pad(ulpdu));
	/* A marker that comes to stand before the CRC is in it. */
	if (out->markers && mpa_to_marker(out->at) == 0)
		add_marker(&p);
	if (out->crc)
		st_le32(crc, crc32c_end(p.crc));
	add_copy(&p, crc, sizeof(crc));
	return true;
}
