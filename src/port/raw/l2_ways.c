/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/raw/l2_ways.h"

#include <linux/neighbour.h>
#include <string.h>

#include "base/uncancelled.h"
#include "port/hop/hop.h"

/* Of an EUI-64 it is the other way round than in the MAC address (RFC 4291, appendix A). */
#define LOCAL_BIT 2

void l2_ways_init(struct l2_ways *w, int fd, struct own_addresses *own)
{
	*w = (struct l2_ways){.fd = fd, .own = own};
}

bool l2_mac_of_gid(const struct gid *g, uint8_t ret[L2_MAC_LEN])
{
	const uint8_t *id = g->raw + 8;

	if (!gid_is_link_local(g) || id[3] != 0xff || id[4] != 0xfe)
		return false;
	memcpy(ret, id, 3);
	memcpy(ret + 3, id + 5, 3);
	ret[0] ^= LOCAL_BIT;
	return true;
}

/* The next host is where it goes, and no router. */
static bool is_neighbour(const struct hop *hop, const struct flow *f)
{
	const size_t len = gid_is_ipv4(&f->dgid) ? 4 : 16;

	return hop->unicast && memcmp(hop->addr, f->dgid.raw + 16 - len, len) == 0;
}

static void ask_the_kernel(const struct l2_ways *w, const struct flow *f, struct l2_way *y)
{
	static const uint8_t none[L2_MAC_LEN];
	struct hop_neighbour n;
	struct hop hop;

	if (hop_find(w->fd, f, &hop) || !is_neighbour(&hop, f))
		return;
	if (hop_neighbour(w->fd, &hop, &n) || !n.valid) {
		hop_probe(f);
		return;
	}
	if (memcmp(n.mac, none, sizeof(none)) == 0)
		return; /* a link without Ethernet's frames */
	y->k.there = true;
	y->ifindex = hop.ifindex;
	memcpy(y->mac, n.mac, sizeof(y->mac));
	/* That it is used says a packet socket to nobody; without the right to say so a datagram
	 * does. */
	if (n.state & NUD_STALE && hop_use(w->fd, &hop))
		hop_probe(f);
}

static void look_up(const struct l2_ways *w, const struct flow *f, struct l2_way *y, uint64_t now)
{
	uint32_t scope = f->scope;

	if (gid_is_multicast(&f->dgid))
		return;
	if (own_find(w->own, &f->dgid, &scope, now)) {
		y->k.there = true;
		y->ifindex = L2_LOOPBACK;
	} else if (l2_mac_of_gid(&f->dgid, y->mac)) {
		y->k.there = true;
		y->ifindex = f->scope;
	} else {
		ask_the_kernel(w, f, y);
	}
}

static struct l2_way *look_up_anew(struct l2_ways *w, const struct flow *f, uint64_t now)
{
	struct l2_way *y = container_of(known_begin(w->v, sizeof(*y), f), struct l2_way, k);
	int state = uncancelled_begin();

	look_up(w, f, y, now);
	uncancelled_end(state);
	known_end(&y->k, now);
	return y;
}

const struct l2_way *l2_ways_find(struct l2_ways *w, const struct flow *f, uint64_t now)
{
	struct known *k = known_find(w->v, sizeof(*w->v), f, now);
	struct l2_way *y = k ? container_of(k, struct l2_way, k) : look_up_anew(w, f, now);

	return y->k.there ? y : NULL;
}
