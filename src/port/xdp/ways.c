/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/ways.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bytes.h"
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

static struct way *set_of(struct ways *w, const struct flow *f)
{
	uint64_t h = ld_le64(f->dgid.raw) ^ ld_le64(f->dgid.raw + 8) ^
		     (ld_le64(f->sgid.raw) + ld_le64(f->sgid.raw + 8)) * 31;

	return w->v[h * 0x9e3779b97f4a7c15u >> 56];
}

static bool is_about(const struct way *y, const struct flow *f)
{
	return y->until && y->scope == f->scope && gid_equal(&y->dgid, &f->dgid) &&
	       gid_equal(&y->sgid, &f->sgid);
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
	y->here = true;
	memcpy(y->macs.to, n.mac, FRAME_MAC_LEN);
	/* It is as good without: the kernel's own packets do that, too, and peers tell of changes.
	 */
	if (n.state & NUD_STALE)
		(void)!hop_use(w->fd, &hop);
}

static struct way *look_up_anew(struct ways *w, struct way *set, const struct flow *f, uint64_t now)
{
	struct way *y = set;
	int state;

	for (size_t i = 0; i < WAYS_WAYS; i++) {
		if (is_about(&set[i], f)) {
			y = &set[i];
			break;
		}
		if (set[i].until < y->until)
			y = &set[i];
	}
	*y = (struct way){.sgid = f->sgid, .dgid = f->dgid, .scope = f->scope};
	state = uncancelled_begin();
	look_up(w, f, y);
	y->until = now + (y->here ? WAYS_KEEP_NS : WAYS_RETRY_NS);
	w->told(w->ctx, y);
	uncancelled_end(state);
	return y;
}

const struct frame_macs *ways_find(struct ways *w, const struct flow *f, uint64_t now)
{
	struct way *set = set_of(w, f), *y = NULL;

	for (size_t i = 0; i < WAYS_WAYS && !y; i++)
		if (is_about(&set[i], f) && now < set[i].until)
			y = &set[i];
	if (!y)
		y = look_up_anew(w, set, f, now);
	return y->here ? &y->macs : NULL;
}
