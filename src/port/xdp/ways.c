/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/ways.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "port/hop/hop.h"

int ways_open(struct ways *w, uint32_t ifindex, uint32_t mtu,
	      void (*told)(void *ctx, const struct way *), void *ctx)
{
	*w = (struct ways){
		.fd = hop_open(), .ifindex = ifindex, .mtu = mtu, .told = told, .ctx = ctx};
	return w->fd < 0 ? w->fd : 0;
}

void ways_close(struct ways *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

/* The interface's MAC address; false: its MTU is another one than the frames were made for. */
static bool interface_is_as_it_was(const struct ways *w, uint8_t ret_mac[FRAME_MAC_LEN])
{
	struct ifreq r = {.ifr_ifindex = (int)w->ifindex};

	if (ioctl(w->fd, SIOCGIFNAME, &r) < 0 || ioctl(w->fd, SIOCGIFMTU, &r) < 0 ||
	    r.ifr_mtu != (int)w->mtu || ioctl(w->fd, SIOCGIFHWADDR, &r) < 0)
		return false;
	memcpy(ret_mac, r.ifr_hwaddr.sa_data, FRAME_MAC_LEN);
	return true;
}

static void look_up(const struct ways *w, const struct flow *f, struct way *y)
{
	static const uint8_t none[FRAME_MAC_LEN];
	struct hop_neighbour n;
	struct hop hop;
	int rc;

	/* Groups have members on this host, too. */
	if (gid_is_multicast(&f->dgid))
		return;
	rc = hop_find(w->fd, f, &hop);
	y->ours = rc != -EINVAL;
	if (rc || !hop.unicast || hop.ifindex != w->ifindex || hop_neighbour(w->fd, &hop, &n) ||
	    !n.valid || memcmp(n.mac, none, sizeof(none)) == 0 ||
	    !interface_is_as_it_was(w, y->macs.from))
		return;
	y->k.there = true;
	memcpy(y->macs.to, n.mac, FRAME_MAC_LEN);
	/* It is as good without: the kernel's own packets do that, too, and peers tell of changes.
	 */
	if (n.state & NUD_STALE)
		(void)!hop_use(w->fd, &hop);
}

static struct way *look_up_anew(struct ways *w, const struct flow *f, uint64_t now)
{
	struct way *y = container_of(known_begin(w->v, sizeof(*y), f), struct way, k);
	int state = uncancelled_begin();

	look_up(w, f, y);
	known_end(&y->k, now);
	w->told(w->ctx, y);
	uncancelled_end(state);
	return y;
}

const struct frame_macs *ways_find(struct ways *w, const struct flow *f, uint64_t now)
{
	struct known *k = known_find(w->v, sizeof(*w->v), f, now);
	struct way *y = k ? container_of(k, struct way, k) : look_up_anew(w, f, now);

	return y->k.there ? &y->macs : NULL;
}
