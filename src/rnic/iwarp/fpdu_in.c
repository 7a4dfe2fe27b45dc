/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rnic/iwarp/fpdu_in.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/crc32c.h"
#include "wire/rdmap.h"

/* What lies between two markers. */
#define BETWEEN (MPA_MARKER_SPACING - MPA_MARKER_LEN)

void fpdu_in_init(struct fpdu_in *in, bool crc, bool markers, const struct rnic_ops *ops, void *ctx)
{
	*in = (struct fpdu_in){.crc = crc, .markers = markers, .ops = ops, .ctx = ctx};
}

static void let_go(const struct fpdu_in *in, uint8_t *p)
{
	if (p)
		in->ops->free(in->ctx, p);
}

void fpdu_in_end(struct fpdu_in *in)
{
	let_go(in, in->kept);
	in->kept = NULL;
	in->have = 0;
}

bool fpdu_in_midst(const struct fpdu_in *in)
{
	return in->have;
}

/* Where its length stands: behind a marker, if it begins with one. */
static size_t length_at(const struct fpdu_in *in)
{
	return in->markers && mpa_to_marker(in->at) == 0 ? MPA_MARKER_LEN : 0;
}

/* All its bytes with the markers among them; one behind its last is the next one's. */
static size_t whole_len(const struct fpdu_in *in, size_t ulpdu)
{
	size_t bare = mpa_fpdu_len(ulpdu), first = mpa_to_marker(in->at);

	if (!in->markers || bare <= first)
		return bare;
	return bare + MPA_MARKER_LEN * ((bare - first - 1) / BETWEEN + 1);
}

/* Its ULPDU without the markers, in `to`. False: one of them says another thing than the length. */
static bool unmark(const struct fpdu_in *in, const uint8_t *p, size_t ulpdu, uint8_t *to)
{
	size_t begin = length_at(in), at = begin + MPA_LENGTH_LEN, done = 0;

	if (begin && mpa_marker_get(p) != 0)
		return false;
	/* Those behind the ULPDU, among its pad and before its CRC, count as well. */
	for (size_t end = in->whole - MPA_CRC_LEN; at <= end;) {
		size_t n = min_of(mpa_to_marker(in->at + at), end - at);

		memcpy(to + done, p + at, min_of(n, ulpdu - done));
		done += min_of(n, ulpdu - done);
		at += n;
		if (mpa_to_marker(in->at + at) != 0)
			break;
		if (mpa_marker_get(p + at) != at - begin)
			return false;
		at += MPA_MARKER_LEN;
	}
	return true;
}

/* One that is whole, at p. */
static int take_whole(struct fpdu_in *in, const uint8_t *p, fpdu_take *take, void *ctx)
{
	const uint8_t *ulpdu = p + length_at(in) + MPA_LENGTH_LEN,
		      *crc = p + in->whole - MPA_CRC_LEN;
	size_t len = ld_be16(ulpdu - MPA_LENGTH_LEN);
	uint8_t *bare = NULL;
	int rc;

	if (in->crc && crc32c(p, in->whole - MPA_CRC_LEN) != ld_le32(crc))
		return MPA_TERM_CRC;
	if (in->markers) {
		bare = in->ops->alloc(in->ctx, len + 1);
		if (!bare)
			return MPA_TERM_LOCAL;
		if (!unmark(in, p, len, bare)) {
			let_go(in, bare);
			return MPA_TERM_MARKER;
		}
		ulpdu = bare;
	}
	rc = take(ctx, ulpdu, len);
	let_go(in, bare);
	in->at += in->whole;
	return rc;
}

/* Adds to what is kept until there are `want` bytes of it; how many of these it took. */
static size_t keep(struct fpdu_in *in, uint8_t *to, size_t want, const uint8_t *bytes, size_t len)
{
	size_t n = min_of(want - in->have, len);

	memcpy(to + in->have, bytes, n);
	in->have += n;
	return n;
}

/* Goes on with the one that was begun. Sets *ret_used, of the bytes. */
static int go_on(struct fpdu_in *in, const uint8_t *bytes, size_t len, fpdu_take *take, void *ctx,
		 size_t *ret_used)
{
	size_t head = length_at(in) + MPA_LENGTH_LEN;
	uint8_t *kept;
	int rc;

	*ret_used = 0;
	if (in->have < head) {
		*ret_used = keep(in, in->head, head, bytes, len);
		if (in->have < head)
			return 0;
	}
	if (!in->kept) {
		in->whole = whole_len(in, ld_be16(in->head + head - MPA_LENGTH_LEN));
		in->kept = in->ops->alloc(in->ctx, in->whole);
		if (!in->kept)
			return MPA_TERM_LOCAL;
		memcpy(in->kept, in->head, head);
	}
	*ret_used += keep(in, in->kept, in->whole, bytes + *ret_used, len - *ret_used);
	if (in->have < in->whole)
		return 0;
	kept = in->kept;
	in->kept = NULL;
	in->have = 0;
	rc = take_whole(in, kept, take, ctx);
	let_go(in, kept);
	return rc;
}

int fpdu_in_feed(struct fpdu_in *in, const uint8_t *bytes, size_t len, fpdu_take *take, void *ctx)
{
	int rc = 0;

	for (size_t used; len && !rc; bytes += used, len -= used) {
		size_t head = length_at(in) + MPA_LENGTH_LEN;

		if (!in->have && len >= head) {
			in->whole = whole_len(in, ld_be16(bytes + head - MPA_LENGTH_LEN));
			if (len >= in->whole) {
				used = in->whole;
				rc = take_whole(in, bytes, take, ctx);
				continue;
			}
		}
		rc = go_on(in, bytes, len, take, ctx, &used);
	}
	return rc;
}
