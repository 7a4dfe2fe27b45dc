/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/devices.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/device_guid.h"
#include "port/hop/addresses.h"

/* Of <linux/if.h>, which cannot stand beside <net/if.h>. The carrier, as Linux's rxe looks at it:
 * IFF_RUNNING follows it up to a second later. */
#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif

#define DUMP_TRIES  5 /* a dump that the kernel interrupted is asked for again */
#define DUMP_BUFFER 32768

struct address {
	uint32_t ifindex;
	struct gid gid;
};

/* One reading of the kernel's state. */
struct reading {
	struct broker_device dev[BROKER_MAX_DEVICES];
	uint32_t devs;
	struct address addr[BROKER_MAX_DEVICES * BROKER_MAX_GIDS];
	uint32_t addrs;
	const struct broker_devices *known;
	const struct device_guid_key *guid_key;
};

struct devices {
	int fd; /* subscribed to changes */
	struct device_guid_key guid_key;
	struct device_notices notices;
	struct broker_devices table;
	struct reading reading;
};

static struct broker_device *find_index(struct broker_device *v, uint32_t n, uint32_t ifindex)
{
	for (uint32_t i = 0; i < n; i++)
		if (v[i].ifindex == ifindex)
			return &v[i];
	return NULL;
}

static uint32_t speed_of(const char *ifname)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq req = {.ifr_data = (void *)&cmd};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t speed = 0;

	if (fd < 0)
		return 0;
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCETHTOOL, &req) == 0)
		speed = ethtool_cmd_speed(&cmd);
	close(fd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static bool link_up(const struct ifinfomsg *info)
{
	return (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_LOWER_UP);
}

static void read_link(struct reading *r, const struct nlmsghdr *h)
{
	const struct ifinfomsg *info = NLMSG_DATA(h);
	int left = (int)IFLA_PAYLOAD(h);
	struct broker_device d = {
		.ifindex = (uint32_t)info->ifi_index,
		.loopback = (info->ifi_flags & IFF_LOOPBACK) != 0,
		.up = link_up(info),
		.enabled = (info->ifi_flags & IFF_UP) != 0,
	};
	bool known = find_index((void *)r->known->dev, r->known->count, d.ifindex);

	if ((!(info->ifi_flags & IFF_UP) && !known) || r->devs == BROKER_MAX_DEVICES)
		return;
	for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		size_t len = RTA_PAYLOAD(a);

		if (a->rta_type == IFLA_IFNAME && len <= sizeof(d.ifname))
			memcpy(d.ifname, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_MTU && len == sizeof(d.mtu))
			memcpy(&d.mtu, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_ADDRESS && len == sizeof(d.mac))
			memcpy(d.mac, RTA_DATA(a), len);
	}
	d.ifname[sizeof(d.ifname) - 1] = 0;
	snprintf(d.name, sizeof(d.name), "weft_%s", d.ifname);
	d.guid_be = device_guid(r->guid_key, d.ifname, d.mac);
	d.speed_mbps = speed_of(d.ifname);
	r->dev[r->devs++] = d;
}

static void read_address(struct reading *r, const struct nlmsghdr *h)
{
	const struct ifaddrmsg *info = NLMSG_DATA(h);
	struct gid gid;

	if (r->addrs < ARRAY_SIZE(r->addr) && address_of_message(h, &gid))
		r->addr[r->addrs++] = (struct address){info->ifa_index, gid};
}

/* Sends one dump request and reads the answers. -EINTR: the state changed meanwhile. */
static int dump(int fd, uint16_t type, struct reading *r)
{
	struct {
		struct nlmsghdr h;
		struct rtgenmsg g;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = type,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.g = {.rtgen_family = AF_UNSPEC},
	};
	_Alignas(struct nlmsghdr) char buf[DUMP_BUFFER];
	bool interrupted = false;

	if (send(fd, &req, sizeof(req), 0) < 0)
		return -errno;
	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);
		unsigned left = (unsigned)got;

		if (got < 0)
			return -errno;
		for (const struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_flags & NLM_F_DUMP_INTR)
				interrupted = true;
			if (h->nlmsg_type == NLMSG_DONE)
				return interrupted ? -EINTR : 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (h->nlmsg_type == RTM_NEWLINK)
				read_link(r, h);
			else if (h->nlmsg_type == RTM_NEWADDR)
				read_address(r, h);
		}
	}
}

static int read_state(struct reading *r)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc = -EINTR;

	if (fd < 0)
		return -errno;
	for (int i = 0; i < DUMP_TRIES && rc == -EINTR; i++) {
		r->devs = r->addrs = 0;
		rc = dump(fd, RTM_GETLINK, r);
		if (rc == 0)
			rc = dump(fd, RTM_GETADDR, r);
	}
	close(fd);
	return rc;
}

/*
 * The order in which fresh addresses take places: IPv4, global IPv6, link-local IPv6. So the places
 * do not depend on whether the link-local address was there when the broker started, which comes
 * some seconds after its interface, and programs that take place 0 unasked get one that works.
 */
static int rank(const struct gid *g)
{
	if (gid_is_ipv4(g))
		return 0;
	return gid_is_link_local(g) ? 2 : 1;
}

static struct broker_gid *find_gid(struct broker_device *d, const struct gid *g)
{
	for (size_t i = 0; i < BROKER_MAX_GIDS; i++)
		if (d->gids[i].type && gid_equal(&d->gids[i].gid, g))
			return &d->gids[i];
	return NULL;
}

/* Gives every address that is still there its old place, and fresh ones the first free places. */
static void place_gids(struct broker_device *d, const struct broker_device *old,
		       const struct reading *r)
{
	for (uint32_t i = 0; old && i < r->addrs; i++) {
		struct broker_gid *g;

		if (r->addr[i].ifindex != d->ifindex)
			continue;
		g = find_gid((void *)old, &r->addr[i].gid);
		if (g)
			d->gids[g - old->gids] = *g;
	}
	for (int want = 0; want < 3; want++) {
		for (uint32_t i = 0; i < r->addrs; i++) {
			const struct gid *g = &r->addr[i].gid;
			size_t at = 0;

			if (r->addr[i].ifindex != d->ifindex || rank(g) != want || find_gid(d, g))
				continue;
			while (at < BROKER_MAX_GIDS && d->gids[at].type)
				at++;
			if (at < BROKER_MAX_GIDS)
				d->gids[at] = (struct broker_gid){*g, BROKER_GID_ROCE_V2};
		}
	}
}

static void take_notice(struct devices *d, const struct nlmsghdr *h)
{
	struct device_notice *n;

	if (h->nlmsg_type == RTM_NEWLINK) {
		const struct ifinfomsg *info = NLMSG_DATA(h);

		n = device_notice_add(&d->notices);
		if (n)
			*n = (struct device_notice){
				.ifindex = (uint32_t)info->ifi_index,
				.what = link_up(info) ? NOTICE_UP : NOTICE_DOWN,
			};
	} else if (h->nlmsg_type == RTM_DELADDR) {
		const struct ifaddrmsg *info = NLMSG_DATA(h);
		struct gid gid;

		n = address_of_message(h, &gid) ? device_notice_add(&d->notices) : NULL;
		if (n)
			*n = (struct device_notice){info->ifa_index, NOTICE_NO_ADDRESS, gid};
	}
}

/* What is, the dump tells; the notices (of which an overrun, ENOBUFS, may lose some) what was in
 * between. */
static void drain_notices(struct devices *d)
{
	_Alignas(struct nlmsghdr) char buf[DUMP_BUFFER];

	d->notices.count = 0;
	for (;;) {
		ssize_t got = recv(d->fd, buf, sizeof(buf), MSG_DONTWAIT);
		unsigned left = (unsigned)got;

		if (got < 0 && errno == ENOBUFS)
			continue;
		if (got < 0)
			return;
		for (const struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left))
			take_notice(d, h);
	}
}

int devices_refresh(struct devices *d, const struct device_watcher *watcher)
{
	struct reading *r = &d->reading;
	struct broker_devices fresh = {.msg.type = BROKER_DEVICES}, old;
	int rc;

	drain_notices(d);
	r->known = &d->table;
	r->guid_key = &d->guid_key;
	rc = read_state(r);
	if (rc) {
		log_warn("broker", "cannot read the interfaces: %s", strerror(-rc));
		return rc;
	}
	for (int loopback = 0; loopback < 2; loopback++)
		for (uint32_t i = 0; i < r->devs; i++)
			if (r->dev[i].loopback == loopback) {
				struct broker_device *n = &fresh.dev[fresh.count++];
				struct broker_device *was =
					find_index(d->table.dev, d->table.count, r->dev[i].ifindex);

				*n = r->dev[i];
				if (was) /* an adapter's GUID is its own, whatever its MAC */
					n->guid_be = was->guid_be;
				place_gids(n, was, r);
			}
	old = d->table;
	d->table = fresh; /* first, for who is told of a change asks for it */
	if (watcher)
		device_changes_tell(&old, &fresh, &d->notices, watcher);
	return 0;
}

int devices_open(struct devices **ret)
{
	struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	struct devices *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (d->fd < 0 || bind(d->fd, (struct sockaddr *)&groups, sizeof(groups)) < 0) {
		rc = -errno;
		goto fail;
	}
	device_guid_key_read(&d->guid_key);
	rc = devices_refresh(d, NULL);
	if (rc)
		goto fail;
	*ret = d;
	return 0;
fail:
	if (d->fd >= 0)
		close(d->fd);
	free(d);
	return rc;
}

void devices_close(struct devices *d)
{
	if (!d)
		return;
	close(d->fd);
	free(d);
}

int devices_fd(const struct devices *d)
{
	return d->fd;
}

const struct broker_devices *devices_table(const struct devices *d)
{
	return &d->table;
}

const struct broker_device *devices_find(const struct devices *d, const struct gid *g,
					 uint32_t scope)
{
	for (uint32_t i = 0; i < d->table.count; i++)
		if ((!scope || scope == d->table.dev[i].ifindex) &&
		    find_gid((void *)&d->table.dev[i], g))
			return &d->table.dev[i];
	return NULL;
}
