/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How a connection of iWARP is agreed on, with a peer that follows no rule: by either role. Input:
 * two bytes of what this side wants, a byte of IRD and one of ORD, one of the private data's
 * length; then the peer's bytes, in pieces, each behind a byte of its length.
 */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "cm/iw.h"

enum { INITIATOR = 1, CRC = 2, MARKERS = 4, P2P = 8, REV_1 = 16, REJECTS = 32, LONG_PRIVATE = 64 };

static const uint8_t said[IW_OUT_MAX + 1];

static struct iw_params wanted(const uint8_t *in)
{
	return (struct iw_params){
		.rev = in[0] & REV_1 ? 1 : 2,
		.crc = in[0] & CRC,
		.markers = in[0] & MARKERS,
		.p2p = in[0] & P2P && !(in[0] & REV_1),
		.ird = (uint16_t)(in[1] << (in[3] & 8)),
		.ord = (uint16_t)(in[2] << (in[3] & 7)),
		.private_data = said,
		.private_len = in[0] & LONG_PRIVATE ? IW_PRIVATE_MAX - (in[3] & 1) : in[3],
	};
}

/* What is sent is a request, or a reply, and all of it. */
static void is_whole(const uint8_t *out, int len, bool reply)
{
	struct mpa_start s;

	must(len >= MPA_START_LEN && len <= (int)IW_OUT_MAX);
	must(mpa_start_may_be(out, (size_t)len, reply));
	must(mpa_start_get(&s, out) == 0 && s.reply == reply);
	must(s.private_len == len - MPA_START_LEN);
	must(s.rev <= MPA_REVISION);
}

static void peers_data_are_within(const struct iw_conn *c)
{
	must(c->private_data >= c->in && c->private_len <= MPA_PRIVATE_MAX &&
	     c->private_data + c->private_len <= c->in + c->have);
	must(c->peer_ird <= MPA_DEPTH_ANY && c->peer_ord <= MPA_DEPTH_ANY);
}

static void requested(struct iw_conn *c, const struct iw_params *own, bool rejects)
{
	uint8_t out[IW_OUT_MAX];

	peers_data_are_within(c);
	if (rejects) {
		is_whole(out, iw_reject(c, own->private_data, own->private_len, out), true);
		return;
	}
	is_whole(out, iw_accept(c, own, out), true);
	must(c->agreed.crc || !own->crc);
	must(c->agreed.ord <= own->ord);
	must(c->peer_ird == MPA_DEPTH_ANY || c->agreed.ord <= c->peer_ird);
	/* A READ that is to be the first has its place. */
	must(c->agreed.rtr != MPA_RTR_READ || c->agreed.ird);
}

static void accepted(const struct iw_conn *c, const struct iw_params *own)
{
	peers_data_are_within(c);
	must(c->agreed.crc || !own->crc);
	must(c->agreed.ord <= own->ord);
	must(c->agreed.ird == own->ird && c->agreed.markers_in == own->markers);
	must(c->agreed.rtr == MPA_RTR_NONE || own->p2p);
	must(c->agreed.rtr != MPA_RTR_SEND); /* which was not offered */
	must(c->agreed.rtr != MPA_RTR_READ || c->agreed.ord);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[IW_OUT_MAX];
	struct iw_params own;
	struct iw_conn c;
	enum iw_event event = IW_MORE;
	bool initiator;

	if (size < 4)
		return 0;
	own = wanted(data);
	initiator = data[0] & INITIATOR;
	if (initiator)
		is_whole(out, iw_connect(&c, &own, out), false);
	else
		iw_listen(&c);
	for (size_t at = 4; at < size && event == IW_MORE;) {
		size_t len = min_of((size_t)data[at] + 1, size - at - 1), used;
		uint8_t *piece = malloc(len + !len); /* so that whoever reads on is seen */

		must(piece);
		memcpy(piece, data + at + 1, len);
		event = iw_rx(&c, piece, len, &used);
		must(used <= len && (event != IW_MORE || used == len));
		must(c.have <= sizeof(c.in));
		free(piece);
		at += 1 + len;
	}
	must(!initiator || event != IW_REQUEST);
	must(initiator || (event != IW_ACCEPTED && event != IW_REJECTED && event != IW_OLD &&
			   event != IW_REFUSED));
	if (event == IW_REQUEST)
		requested(&c, &own, data[0] & REJECTS);
	else if (event == IW_ACCEPTED)
		accepted(&c, &own);
	else if (event == IW_REJECTED)
		peers_data_are_within(&c);
	else if (event == IW_REFUSED)
		must(iw_terminate(&c, out) <= IW_OUT_MAX);
	return 0;
}
