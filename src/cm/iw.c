/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cm/iw.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/crc32c.h"
#include "wire/rdmap.h"

/* ---- out ------------------------------------------------------------------------------------ */

/* e: NULL: without those four bytes. */
static int put(uint8_t *out, const struct mpa_start *s, const struct mpa_enhanced *e,
	       const void *data, size_t len)
{
	struct mpa_start start = *s;
	size_t at = MPA_START_LEN;

	if (len > IW_PRIVATE_MAX)
		return -EINVAL;
	start.private_len = (uint16_t)len;
	if (e) {
		start.flags |= MPA_ENHANCED;
		start.private_len += MPA_ENHANCED_LEN;
		mpa_enhanced_put(out + at, e);
		at += MPA_ENHANCED_LEN;
	}
	mpa_start_put(out, &start);
	if (len)
		memcpy(out + at, data, len);
	return (int)(at + len);
}

static uint8_t flags_of(const struct iw_params *p)
{
	return (uint8_t)((p->crc ? MPA_CRC : 0) | (p->markers ? MPA_MARKERS : 0));
}

static uint16_t depth(uint16_t n)
{
	return n < MPA_DEPTH_ANY ? n : MPA_DEPTH_ANY - 1;
}

int iw_connect(struct iw_conn *c, const struct iw_params *p, uint8_t out[IW_OUT_MAX])
{
	const struct mpa_start start = {.flags = flags_of(p), .rev = p->rev};
	/* Adapters ask for one of these two; a SEND would take a receive of the peer's. */
	const struct mpa_enhanced e = {.p2p = p->p2p,
				       .rtr_write = p->p2p,
				       .rtr_read = p->p2p && p->ord,
				       .ird = depth(p->ird),
				       .ord = depth(p->ord)};

	if (p->rev < 1 || p->rev > MPA_REVISION || (p->p2p && p->rev < 2))
		return -EINVAL;
	*c = (struct iw_conn){.initiator = true, .own = *p};
	c->own.private_data = NULL;
	return put(out, &start, p->rev >= 2 ? &e : NULL, p->private_data, p->private_len);
}

void iw_listen(struct iw_conn *c)
{
	*c = (struct iw_conn){0};
}

/* ---- in ------------------------------------------------------------------------------------- */

/* Each at once, as far as there are bytes. */
static bool gather(struct iw_conn *c, size_t want, const uint8_t *bytes, size_t len, size_t *used)
{
	size_t n = min_of(want - c->have, len - *used);

	memcpy(c->in + c->have, bytes + *used, n);
	c->have += n;
	*used += n;
	return c->have == want;
}

static bool is_enhanced(const struct mpa_start *s)
{
	return s->rev >= 2 && (s->flags & MPA_ENHANCED);
}

/* The four bytes, and what is behind them. False: they are not there. */
static bool take_private(struct iw_conn *c)
{
	bool enhanced = is_enhanced(&c->start);
	size_t own = enhanced ? MPA_ENHANCED_LEN : 0;

	if (c->start.private_len < own)
		return false;
	c->enhanced = (struct mpa_enhanced){.ird = MPA_DEPTH_ANY, .ord = MPA_DEPTH_ANY};
	if (enhanced)
		mpa_enhanced_get(&c->enhanced, c->in + MPA_START_LEN);
	c->peer_ird = c->enhanced.ird;
	c->peer_ord = c->enhanced.ord;
	c->private_data = c->in + MPA_START_LEN + own;
	c->private_len = c->start.private_len - own;
	return true;
}

static enum iw_event refuse(struct iw_conn *c, uint16_t why)
{
	c->term = why;
	return IW_REFUSED;
}

static enum mpa_rtr rtr_of(const struct mpa_enhanced *e)
{
	if (!e->p2p)
		return MPA_RTR_NONE;
	return e->rtr_write  ? MPA_RTR_WRITE
	       : e->rtr_read ? MPA_RTR_READ
	       : e->rtr_send ? MPA_RTR_SEND
			     : MPA_RTR_NONE;
}

/* Of the initiator: what the reply makes of the request. */
static enum iw_event replied(struct iw_conn *c)
{
	const struct mpa_start *s = &c->start;
	const struct iw_params *own = &c->own;

	if (s->flags & MPA_REJECT)
		return own->rev > 1 && s->rev < own->rev ? IW_OLD : IW_REJECTED;
	if (s->rev > own->rev)
		return refuse(c, MPA_TERM_START);
	c->agreed = (struct iw_agreed){
		.crc = own->crc || (s->flags & MPA_CRC),
		.markers_in = own->markers,
		.markers_out = s->flags & MPA_MARKERS,
		.ird = own->ird,
		.ord = own->ord,
		.rtr = rtr_of(&c->enhanced),
	};
	/* A reply says what the responder will do and take, which is to be within what was asked.
	 */
	if (c->peer_ird != MPA_DEPTH_ANY)
		c->agreed.ord = min_of(own->ord, c->peer_ird);
	if (c->peer_ord != MPA_DEPTH_ANY && c->peer_ord > own->ird)
		return refuse(c, MPA_TERM_IRD);
	if (c->enhanced.p2p &&
	    (!own->p2p || c->agreed.rtr == MPA_RTR_NONE || c->agreed.rtr == MPA_RTR_SEND ||
	     (c->agreed.rtr == MPA_RTR_READ && !c->agreed.ord)))
		return refuse(c, MPA_TERM_RTR);
	return IW_ACCEPTED;
}

enum iw_event iw_rx(struct iw_conn *c, const uint8_t *bytes, size_t len, size_t *ret_used)
{
	*ret_used = 0;
	if (c->have < MPA_START_LEN && !gather(c, MPA_START_LEN, bytes, len, ret_used))
		return mpa_start_may_be(c->in, c->have, c->initiator) ? IW_MORE : IW_BROKEN;
	if (mpa_start_get(&c->start, c->in) || c->start.reply != c->initiator ||
	    c->start.private_len > MPA_PRIVATE_MAX)
		return IW_BROKEN;
	if (!gather(c, MPA_START_LEN + (size_t)c->start.private_len, bytes, len, ret_used))
		return IW_MORE;
	if (!take_private(c))
		return IW_BROKEN;
	return c->initiator ? replied(c) : IW_REQUEST;
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct mpa_start reply_to(const struct iw_conn *c, uint8_t flags)
{
	/* Whoever asks by a revision that we do not know is answered by the latest that we do. */
	return (struct mpa_start){
		.reply = true, .flags = flags, .rev = min_of(c->start.rev, (uint8_t)MPA_REVISION)};
}

int iw_accept(struct iw_conn *c, const struct iw_params *p, uint8_t out[IW_OUT_MAX])
{
	const struct mpa_enhanced *asked = &c->enhanced;
	struct mpa_start start = reply_to(c, flags_of(p));
	struct mpa_enhanced e = {.p2p = asked->p2p};

	/* The one that costs the least of those that the peer can. */
	e.rtr_write = e.p2p && asked->rtr_write;
	e.rtr_read = e.p2p && !asked->rtr_write && asked->rtr_read && (p->ird || !asked->rtr_send);
	e.rtr_send = e.p2p && !e.rtr_write && !e.rtr_read && asked->rtr_send;
	/* Without one of them there is no first message to wait for (RFC 6581, 9.2). */
	e.p2p = e.rtr_write || e.rtr_read || e.rtr_send;
	c->agreed = (struct iw_agreed){
		.crc = p->crc || (c->start.flags & MPA_CRC),
		.markers_in = p->markers,
		.markers_out = c->start.flags & MPA_MARKERS,
		.ird = p->ird,
		.ord = p->ord,
		.rtr = rtr_of(&e),
	};
	/* That is all some adapters know, and the program need not know of it. */
	if (e.rtr_read && !p->ird)
		c->agreed.ird = 1;
	if (asked->ird != MPA_DEPTH_ANY)
		c->agreed.ord = min_of(p->ord, asked->ird);
	if (c->agreed.crc)
		start.flags |= MPA_CRC;
	e.ird = depth(c->agreed.ird);
	e.ord = depth(c->agreed.ord);
	return put(out, &start, is_enhanced(&c->start) ? &e : NULL, p->private_data,
		   p->private_len);
}

size_t iw_terminate(const struct iw_conn *c, uint8_t out[IW_OUT_MAX])
{
	const struct rdmap_terminate t = {.cause = c->term};
	const struct ddp_hdr h = {.last = true,
				  .dv = DDP_VERSION,
				  .rv = RDMAP_VERSION,
				  .opcode = RDMAP_TERMINATE,
				  .qn = DDP_QN_TERMINATE,
				  .msn = 1};
	uint8_t *p = out;
	size_t len;

	if (c->start.flags & MPA_MARKERS) {
		mpa_marker_put(p, 0);
		p += MPA_MARKER_LEN;
	}
	len = ddp_hdr_put(p + MPA_LENGTH_LEN, &h);
	len += rdmap_terminate_put(p + MPA_LENGTH_LEN + len, &t);
	st_be16(p, (uint16_t)len);
	p += MPA_LENGTH_LEN + len;
	memset(p, 0, mpa_pad(len));
	p += mpa_pad(len);
	st_le32(p, c->own.crc || (c->start.flags & MPA_CRC) ? crc32c(out, (size_t)(p - out)) : 0);
	return (size_t)(p - out) + MPA_CRC_LEN;
}

int iw_reject(struct iw_conn *c, const void *private_data, size_t len, uint8_t out[IW_OUT_MAX])
{
	const struct mpa_start start = reply_to(c, MPA_REJECT);
	const struct mpa_enhanced none = {0};

	return put(out, &start, is_enhanced(&c->start) ? &none : NULL, private_data, len);
}
