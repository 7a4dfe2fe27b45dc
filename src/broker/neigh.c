/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/neigh.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/hop/hop.h"

static bool link_has_neighbours(int fd, uint32_t ifindex)
{
	struct ifreq req = {0};

	req.ifr_ifindex = (int)ifindex;
	if (ioctl(fd, SIOCGIFNAME, &req) < 0 || ioctl(fd, SIOCGIFFLAGS, &req) < 0)
		return false;
	return !(req.ifr_flags & (IFF_NOARP | IFF_POINTOPOINT | IFF_LOOPBACK));
}

static int is_known(int fd, const struct hop *hop)
{
	struct hop_neighbour n;
	int rc = hop_neighbour(fd, hop, &n);

	if (rc == -ENOENT)
		return -EAGAIN;
	if (rc)
		return rc;
	return n.valid ? 0 : -EAGAIN;
}

int neigh_check(const struct flow *f, bool probe)
{
	int fd = hop_open(), rc;
	struct hop hop;

	if (fd < 0)
		return 0;
	rc = hop_find(fd, f, &hop);
	if (rc == 0)
		rc = hop.unicast && link_has_neighbours(fd, hop.ifindex) ? is_known(fd, &hop) : 0;
	close(fd);
	if (rc != -EAGAIN)
		return 0;
	if (probe)
		hop_probe(f);
	return -EAGAIN;
}
