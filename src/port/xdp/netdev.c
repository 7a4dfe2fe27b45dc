/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/netdev.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"

static bool is_ethernet(const struct ifaddrs *a)
{
	return a->ifa_addr &&
	       (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6) &&
	       (a->ifa_flags & IFF_UP) &&
	       !(a->ifa_flags & (IFF_LOOPBACK | IFF_NOARP | IFF_POINTOPOINT));
}

/* The name of the only one there is. */
static int only_one(char name[IF_NAMESIZE], char *err, size_t err_len)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0) {
		snprintf(err, err_len, "no list of interfaces: %s", strerror(errno));
		return -errno;
	}
	name[0] = 0;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!is_ethernet(a) || strcmp(a->ifa_name, name) == 0)
			continue;
		if (name[0]) {
			snprintf(err, err_len,
				 "there are several interfaces: name one, as in xdp:%s", name);
			freeifaddrs(all);
			return -EINVAL;
		}
		snprintf(name, IF_NAMESIZE, "%s", a->ifa_name);
	}
	freeifaddrs(all);
	if (name[0])
		return 0;
	snprintf(err, err_len, "there is no interface of Ethernet that is up and has an address");
	return -ENODEV;
}

static int ask(int fd, unsigned long what, struct ifreq *r, const char *name)
{
	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", name);
	return ioctl(fd, what, r) < 0 ? -errno : 0;
}

/* Who does not say has one. */
static uint32_t queues_of(int fd, const char *name)
{
	struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq r = {.ifr_data = (void *)&c};

	if (ask(fd, SIOCETHTOOL, &r, name))
		return 1;
	return c.rx_count + c.combined_count ? c.rx_count + c.combined_count : 1;
}

static bool joins(int fd, const char *name)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GGRO};
	struct ifreq r = {.ifr_data = (void *)&v};

	return ask(fd, SIOCETHTOOL, &r, name) == 0 && v.data;
}

/* A VLAN, a bridge and the like name no bus, or say that it does not apply. */
static bool on_bus(int fd, const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq r = {.ifr_data = (void *)&info};

	return ask(fd, SIOCETHTOOL, &r, name) == 0 && info.bus_info[0] &&
	       strcmp(info.bus_info, "N/A") != 0;
}

static int look(struct netdev *d, int fd)
{
	struct ifreq r = {0};
	int rc = ask(fd, SIOCGIFINDEX, &r, d->name);

	if (rc)
		return rc;
	d->ifindex = (uint32_t)r.ifr_ifindex;
	rc = ask(fd, SIOCGIFMTU, &r, d->name);
	if (rc)
		return rc;
	d->mtu = (uint32_t)r.ifr_mtu;
	rc = ask(fd, SIOCGIFHWADDR, &r, d->name);
	if (rc)
		return rc;
	if (r.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return -EPROTONOSUPPORT;
	d->queues = queues_of(fd, d->name);
	d->joins = joins(fd, d->name);
	d->on_bus = on_bus(fd, d->name);
	return 0;
}

int netdev_look(struct netdev *d, const char *name, char *err, size_t err_len)
{
	int fd, rc = 0;

	*d = (struct netdev){0};
	if (!name)
		rc = only_one(d->name, err, err_len);
	else if (strlen(name) < sizeof(d->name))
		snprintf(d->name, sizeof(d->name), "%s", name);
	else
		rc = -ENODEV;
	if (rc && !name)
		return rc;
	fd = kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		rc = -errno;
	if (rc == 0)
		rc = look(d, fd);
	if (rc)
		snprintf(err, err_len, "interface %s: %s", name ? name : d->name,
			 rc == -EPROTONOSUPPORT ? "it has no frames of Ethernet" : strerror(-rc));
	if (fd >= 0)
		close(fd);
	return rc;
}

void netdev_addresses(const struct netdev *d, void (*each)(void *ctx, const struct gid *),
		      void *ctx)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

		if (!a->ifa_addr || strcmp(a->ifa_name, d->name) != 0)
			continue;
		if (a->ifa_addr->sa_family == AF_INET)
			memcpy(g.raw + 12,
			       &((const struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, 4);
		else if (a->ifa_addr->sa_family == AF_INET6)
			memcpy(g.raw,
			       &((const struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr, 16);
		else
			continue;
		each(ctx, &g);
	}
	freeifaddrs(all);
}
