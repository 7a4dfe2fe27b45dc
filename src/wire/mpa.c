/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/mpa.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define KEY_LEN 16

/* Without the zero at their ends. */
static const char keys[2][KEY_LEN + 1] = {"MPA ID Req Frame", "MPA ID Rep Frame"};

#define HIGH 0x8000u
#define NEXT 0x4000u

int mpa_start_get(struct mpa_start *ret, const uint8_t from[MPA_START_LEN])
{
	bool reply = memcmp(from, keys[1], KEY_LEN) == 0;

	if (!reply && memcmp(from, keys[0], KEY_LEN) != 0)
		return -EBADMSG;
	*ret = (struct mpa_start){
		.reply = reply,
		.flags = from[16],
		.rev = from[17],
		.private_len = ld_be16(from + 18),
	};
	return 0;
}

void mpa_start_put(uint8_t to[MPA_START_LEN], const struct mpa_start *s)
{
	memcpy(to, keys[s->reply], KEY_LEN);
	to[16] = s->flags;
	to[17] = s->rev;
	st_be16(to + 18, s->private_len);
}

bool mpa_start_may_be(const uint8_t *from, size_t n, bool reply)
{
	return memcmp(from, keys[reply], min_of(n, (size_t)KEY_LEN)) == 0;
}

void mpa_enhanced_get(struct mpa_enhanced *ret, const uint8_t from[MPA_ENHANCED_LEN])
{
	uint16_t ird = ld_be16(from), ord = ld_be16(from + 2);

	*ret = (struct mpa_enhanced){
		.p2p = ird & HIGH,
		.rtr_send = ird & NEXT,
		.rtr_write = ord & HIGH,
		.rtr_read = ord & NEXT,
		.ird = ird & MPA_DEPTH_ANY,
		.ord = ord & MPA_DEPTH_ANY,
	};
}

void mpa_enhanced_put(uint8_t to[MPA_ENHANCED_LEN], const struct mpa_enhanced *e)
{
	st_be16(to, (uint16_t)((e->p2p ? HIGH : 0) | (e->rtr_send ? NEXT : 0) |
			       (e->ird & MPA_DEPTH_ANY)));
	st_be16(to + 2, (uint16_t)((e->rtr_write ? HIGH : 0) | (e->rtr_read ? NEXT : 0) |
				   (e->ord & MPA_DEPTH_ANY)));
}

size_t mpa_mulpdu(size_t emss, bool markers)
{
	size_t around = MPA_LENGTH_LEN + MPA_CRC_LEN + emss % 4;

	if (markers)
		around += MPA_MARKER_LEN * ((emss + MPA_MARKER_SPACING - 1) / MPA_MARKER_SPACING);
	if (emss < around + MPA_MULPDU_MIN)
		return MPA_MULPDU_MIN;
	return min_of(emss - around, (size_t)MPA_MULPDU_MAX);
}

uint16_t mpa_marker_get(const uint8_t from[MPA_MARKER_LEN])
{
	return ld_be16(from + 2);
}

void mpa_marker_put(uint8_t to[MPA_MARKER_LEN], uint16_t back)
{
	st_be16(to, 0);
	st_be16(to + 2, back);
}
