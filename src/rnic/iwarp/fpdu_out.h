/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FPDUs into pieces for sendmsg(): their headers, markers, pads and CRCs stand in room of the
 * batch's; what they carry stays where it is, unless it is short.
 */
#ifndef WEFT_RNIC_IWARP_FPDU_OUT_H
#define WEFT_RNIC_IWARP_FPDU_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rnic/stream.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

/* Behind its length, what stands before the payload: the longest is an atomic request. */
#define FPDU_HEADERS_MAX (DDP_HDR_MAX + RDMAP_ATOMIC_REQUEST_LEN)

struct fpdu_out {
	bool crc, markers; /* as agreed on */
	uint64_t at;	   /* in the stream, counted from the first FPDU */
};

/* So much of a payload is copied: then FPDUs that follow one another are one piece. */
#define FPDU_COPY_MAX 256

/* Is there place for a ULPDU of so many bytes, its payload of so many pieces? */
bool fpdu_out_fits(const struct fpdu_out *, const struct fpdu_batch *, size_t ulpdu, size_t pieces);
/*
 * Adds an FPDU of hdr_len bytes of headers, at hdr, and the pieces of its payload. False: there is
 * no place for it, and nothing was added.
 */
bool fpdu_out_put(struct fpdu_out *, struct fpdu_batch *, const uint8_t *hdr, size_t hdr_len,
		  const struct iovec *payload, size_t n);

#endif
