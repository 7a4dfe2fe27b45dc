/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FPDUs out of a byte stream, however it is cut. What has come whole is handed on from where it
 * lies; only of an FPDU that has not is anything kept. Nobody sees a byte before its CRC was right.
 */
#ifndef WEFT_RNIC_IWARP_FPDU_IN_H
#define WEFT_RNIC_IWARP_FPDU_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rnic/rnic.h"
#include "wire/mpa.h"

#define FPDU_HEAD_LEN (MPA_MARKER_LEN + MPA_LENGTH_LEN) /* by then its length is known */

struct fpdu_in {
	const struct rnic_ops *ops; /* for memory */
	void *ctx;
	bool crc, markers; /* as agreed on */
	uint64_t at;	   /* in the stream, counted from the first FPDU: where the one begins */
	uint8_t head[FPDU_HEAD_LEN];
	uint8_t *kept; /* of one that has not come whole, once its length is known */
	size_t have, whole;
};

/* A ULPDU, borrowed for the call. Not 0: no more is wanted, and why (enum rdmap_term_cause). */
typedef int fpdu_take(void *ctx, const uint8_t *ulpdu, size_t len);

void fpdu_in_init(struct fpdu_in *, bool crc, bool markers, const struct rnic_ops *, void *ctx);
void fpdu_in_end(struct fpdu_in *);
/*
 * Takes in all of it, unless something is wrong: then the rest is not looked at, and nothing may be
 * given to it any more. 0; what take() said; MPA_TERM_CRC, MPA_TERM_MARKER; MPA_TERM_LOCAL: no
 * memory.
 */
int fpdu_in_feed(struct fpdu_in *, const uint8_t *bytes, size_t len, fpdu_take *take, void *ctx);
/* Is there a part of one that has not come whole? */
bool fpdu_in_midst(const struct fpdu_in *);

#endif
