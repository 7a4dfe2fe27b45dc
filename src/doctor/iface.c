/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/iface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"

#define DUMP_BUFFER 32768
#define STRINGS_MAX 65536 /* a driver has thousands of counters at most */
#define IFACES_MAX  4096

/* ---- ethtool --------------------------------------------------------------------------------- */

static int ethtool(int fd, const char *ifname, void *data)
{
	struct ifreq req = {.ifr_data = data};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	return ioctl(fd, SIOCETHTOOL, &req) < 0 ? -errno : 0;
}

/* How many strings of a set there are, and they, ETH_GSTRING_LEN bytes each; to be freed. */
static int strings_of(int fd, const char *ifname, uint32_t set, char **ret, uint32_t *ret_count)
{
	union {
		struct ethtool_sset_info info;
		uint64_t room[3]; /* with one count behind it */
	} ask = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << set}};
	struct ethtool_gstrings *g;
	int rc = ethtool(fd, ifname, &ask);
	uint32_t count = 0;

	if (rc == 0)
		memcpy(&count, &ask.room[2], sizeof(count));
	if (rc == 0 && (!ask.info.sset_mask || !count || count > STRINGS_MAX))
		rc = -EOPNOTSUPP;
	if (rc)
		return rc;
	g = calloc(1, sizeof(*g) + (size_t)count * ETH_GSTRING_LEN);
	if (!g)
		return -ENOMEM;
	*g = (struct ethtool_gstrings){.cmd = ETHTOOL_GSTRINGS, .string_set = set, .len = count};
	rc = ethtool(fd, ifname, g);
	*ret_count = min_of(g->len, count);
	if (rc == 0) {
		memmove(g, g->data, (size_t)*ret_count * ETH_GSTRING_LEN);
		*ret = (char *)g;
	} else {
		free(g);
	}
	return rc;
}

static void name_from(char ret[33], const char *strings, uint32_t i)
{
	memcpy(ret, strings + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
	ret[ETH_GSTRING_LEN] = 0;
}

static int read_stats(int fd, struct iface *i)
{
	struct ethtool_stats *s;
	char *names = NULL;
	uint32_t n;
	int rc = strings_of(fd, i->name, ETH_SS_STATS, &names, &n);

	if (rc)
		return rc;
	s = calloc(1, sizeof(*s) + (size_t)n * sizeof(uint64_t));
	i->stats = calloc(n, sizeof(*i->stats));
	rc = s && i->stats ? 0 : -ENOMEM;
	if (rc == 0) {
		*s = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = n};
		rc = ethtool(fd, i->name, s);
	}
	for (uint32_t k = 0; rc == 0 && k < min_of(n, s->n_stats); k++) {
		name_from(i->stats[k].name, names, k);
		i->stats[k].value = s->data[k];
		i->stat_count++;
	}
	free(s);
	free(names);
	return rc;
}

static int read_features(int fd, struct iface *i)
{
	struct ethtool_gfeatures *g;
	char *names = NULL;
	uint32_t n, blocks;
	int rc = strings_of(fd, i->name, ETH_SS_FEATURES, &names, &n);

	if (rc)
		return rc;
	blocks = (n + 31) / 32;
	g = calloc(1, sizeof(*g) + blocks * sizeof(g->features[0]));
	i->features = calloc(n, sizeof(*i->features));
	rc = g && i->features ? 0 : -ENOMEM;
	if (rc == 0) {
		*g = (struct ethtool_gfeatures){.cmd = ETHTOOL_GFEATURES, .size = blocks};
		rc = ethtool(fd, i->name, g);
	}
	for (uint32_t k = 0; rc == 0 && k < n && k / 32 < g->size; k++) {
		const struct ethtool_get_features_block *b = &g->features[k / 32];
		uint32_t bit = 1u << k % 32;

		name_from(i->features[k].name, names, k);
		i->features[k].on = b->active & bit;
		i->features[k].asked = b->requested & bit;
		i->features[k].can = (b->available & bit) && !(b->never_changed & bit);
		i->feature_count++;
	}
	free(g);
	free(names);
	return rc;
}

static void read_ethtool(int fd, struct iface *i)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_cmd set = {.cmd = ETHTOOL_GSET};
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};

	if (ethtool(fd, i->name, &info) == 0) {
		snprintf(i->driver, sizeof(i->driver), "%.31s", info.driver);
		i->hardware = info.bus_info[0] && strcmp(info.bus_info, "N/A") != 0 &&
			      strcmp(info.bus_info, "tap") != 0;
	}
	if (ethtool(fd, i->name, &set) == 0) {
		uint32_t speed = (uint32_t)set.speed_hi << 16 | set.speed;

		i->speed_mbps = speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
		i->half_duplex = set.duplex == DUPLEX_HALF;
	}
	i->rings.rc = ethtool(fd, i->name, &ring);
	i->rings.rx = ring.rx_pending;
	i->rings.rx_max = ring.rx_max_pending;
	i->pause.rc = ethtool(fd, i->name, &pause);
	i->pause.rx = pause.rx_pause;
	i->pause.tx = pause.tx_pause;
	i->stats_rc = read_stats(fd, i);
	i->features_rc = read_features(fd, i);
}

/* ---- rtnetlink ------------------------------------------------------------------------------- */

struct reading {
	struct iface *v;
	size_t count;
	int rc;
};

static void see_kind(struct iface *i, const struct rtattr *info)
{
	int left = (int)RTA_PAYLOAD(info);

	for (const struct rtattr *a = RTA_DATA(info); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_INFO_KIND) {
			i->bridge = !strncmp(RTA_DATA(a), "bridge", RTA_PAYLOAD(a));
			i->veth = !strncmp(RTA_DATA(a), "veth", RTA_PAYLOAD(a));
		}
}

static void see_link(struct reading *r, const struct nlmsghdr *h)
{
	const struct ifinfomsg *info = NLMSG_DATA(h);
	int left = (int)IFLA_PAYLOAD(h);
	struct iface *i, *v;
	bool elsewhere = false;

	if (r->count == IFACES_MAX)
		return;
	v = realloc(r->v, (r->count + 1) * sizeof(*v));
	if (!v) {
		r->rc = -ENOMEM;
		return;
	}
	r->v = v;
	i = &v[r->count++];
	*i = (struct iface){
		.index = (uint32_t)info->ifi_index,
		.enabled = info->ifi_flags & IFF_UP,
		.carrier = info->ifi_flags & IFF_LOWER_UP,
		.loopback = info->ifi_flags & IFF_LOOPBACK,
		.ethernet = info->ifi_type == ARPHRD_ETHER,
	};
	for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		size_t len = RTA_PAYLOAD(a);

		if (a->rta_type == IFLA_IFNAME)
			memcpy(i->name, RTA_DATA(a), min_of(len, sizeof(i->name) - 1));
		else if (a->rta_type == IFLA_MTU && len == sizeof(i->mtu))
			memcpy(&i->mtu, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_MAX_MTU && len == sizeof(i->mtu_max))
			memcpy(&i->mtu_max, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_LINKINFO)
			see_kind(i, a);
		else if (a->rta_type == IFLA_LINK && len == sizeof(i->lower))
			memcpy(&i->lower, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_LINK_NETNSID)
			elsewhere = true;
		else if (a->rta_type == IFLA_MASTER && len == sizeof(i->master))
			memcpy(&i->master, RTA_DATA(a), len);
		else if (a->rta_type == IFLA_STATS64)
			memcpy(&i->link, RTA_DATA(a), min_of(len, sizeof(i->link)));
	}
	/* The other end of a pair, and what is in another namespace, is nothing that it stands on.
	 */
	if (i->veth || elsewhere || i->lower == i->index)
		i->lower = 0;
}

static int dump_links(int fd, struct reading *r)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg g;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = RTM_GETLINK,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.g = {.ifi_family = AF_UNSPEC},
	};
	_Alignas(struct nlmsghdr) char buf[DUMP_BUFFER];

	if (send(fd, &req, sizeof(req), 0) < 0)
		return -errno;
	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);
		unsigned left = (unsigned)got;

		if (got < 0)
			return -errno;
		for (const struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return r->rc;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (h->nlmsg_type == RTM_NEWLINK)
				see_link(r, h);
		}
	}
}

static void see_addresses(struct reading *r)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr ||
		    (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
			continue;
		for (size_t i = 0; i < r->count; i++)
			r->v[i].addressed |= !strcmp(r->v[i].name, a->ifa_name);
	}
	freeifaddrs(all);
}

int ifaces_read(struct iface **ret, size_t *ret_count)
{
	struct reading r = {0};
	int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int rc = fd < 0 ? -errno : dump_links(fd, &r);

	if (fd >= 0)
		close(fd);
	fd = rc ? -1 : kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (rc == 0 && fd < 0)
		rc = -errno;
	if (rc) {
		ifaces_free(r.v, r.count);
		return rc;
	}
	see_addresses(&r);
	for (size_t i = 0; i < r.count; i++) {
		read_ethtool(fd, &r.v[i]);
		dcb_read(&r.v[i].dcb, r.v[i].name);
	}
	close(fd);
	*ret = r.v;
	*ret_count = r.count;
	return 0;
}

void ifaces_free(struct iface *v, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(v[i].stats);
		free(v[i].features);
	}
	free(v);
}

/* ---- what is in it --------------------------------------------------------------------------- */

bool iface_stat(const struct iface *i, const char *name, uint64_t *ret)
{
	for (size_t k = 0; k < i->stat_count; k++)
		if (!strcmp(i->stats[k].name, name)) {
			*ret = i->stats[k].value;
			return true;
		}
	return false;
}

const struct iface_feature *iface_feature(const struct iface *i, const char *name)
{
	for (size_t k = 0; k < i->feature_count; k++)
		if (!strcmp(i->features[k].name, name))
			return &i->features[k];
	return NULL;
}

const struct iface *iface_below(const struct iface *v, size_t count, const struct iface *i)
{
	for (size_t k = 0; i->lower && k < count; k++)
		if (v[k].index == i->lower)
			return &v[k];
	return NULL;
}
