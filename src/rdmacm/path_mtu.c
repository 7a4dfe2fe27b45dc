// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What path MTU the way to a peer carries.
 *
 * Our interface says what we may send. A peer on the same link whose interface takes less receives
 * and sends no full packets, and nobody says so: routers answer "too big", links lose. The standard
 * has the peer's CM refuse such a REQ (reason 26, see cm/cm.h); Linux's takes it, and then
 * whatever needs a full packet vanishes. So echo requests of a full packet's size go first, as
 * probes in the sense of RFC 4821, and must come back in one piece: a peer that can not send as
 * much answers in fragments. Only path MTUs beyond what every Ethernet carries are asked about.
 *
 * Who answers no echo at all tells nothing, and where we may not ask there is nothing to know:
 * then our interface's word stands.
 */
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/kernel_socket.h"
#include "base/log.h"
#include "base/time.h"
#include "rdmacm/cma.h"
#include "wire/bth.h"

#define BASE	     3 /* 1024: never asked for less */
#define LARGEST	     5
#define ROUNDS	     4
#define ROUND_MS     50
#define REMEMBER_NS  (10 * 1000000000ull)
#define REMEMBER_MAX 32

/* RFC 792 and RFC 4443: the same but for the type. */
struct echo {
	uint8_t type, code;
	uint16_t checksum, id, seq;
	uint8_t data[(128u << LARGEST) + FULL_PACKET_HEADERS];
};

enum answer { NONE, WHOLE, CUT };

struct asking {
	int fd;
	bool six, raw;
	uint16_t id;
	uint8_t most;
	enum answer answer[LARGEST + 1]; /* by path MTU */
};

/* ---- the socket ------------------------------------------------------------------------------ */

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int open_socket(struct asking *a, const struct sockaddr *src, const struct sockaddr *dst)
{
	int proto = a->six ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	struct sockaddr_storage from = {0}, to = {0};

	memcpy(&from, src, cma_addr_len(src));
	memcpy(&to, dst, cma_addr_len(dst));
	cma_addr_set_port((struct sockaddr *)&from, 0);
	cma_addr_set_port((struct sockaddr *)&to, 0);
	/* Whether anybody may is net.ipv4.ping_group_range's to say; with CAP_NET_RAW there is
	 * another way. */
	a->fd = kernel_socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, proto);
	a->raw = a->fd < 0;
	if (a->raw)
		a->fd = kernel_socket(dst->sa_family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				      proto);
	if (a->fd < 0)
		return -errno;
	if (a->six ? set(a->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) ||
			     set(a->fd, IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1)
		   : set(a->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) ||
			     set(a->fd, IPPROTO_IP, IP_RECVFRAGSIZE, 1))
		return -errno;
	if (bind(a->fd, (struct sockaddr *)&from, cma_addr_len(src)) ||
	    connect(a->fd, (struct sockaddr *)&to, cma_addr_len(dst)))
		return -errno;
	return 0;
}

/* ---- asking and answers ---------------------------------------------------------------------- */

/* Only a raw IPv4 socket's packets need it; all bytes behind the header are zero. */
static uint16_t checksum(const struct echo *e)
{
	uint32_t sum = (uint32_t)htons((uint16_t)(e->type << 8)) + e->id + e->seq;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void ask(struct asking *a, uint8_t mtu)
{
	struct echo e = {
		.type = a->six ? ICMP6_ECHO_REQUEST : ICMP_ECHO, .id = a->id, .seq = htons(mtu)};
	size_t ip = a->six ? 40 : 20;

	if (!a->six)
		e.checksum = checksum(&e);
	if (send(a->fd, &e, (128u << mtu) + FULL_PACKET_HEADERS - ip, 0) < 0 && errno == EMSGSIZE)
		a->answer[mtu] = CUT; /* a router has said so before */
}

static bool in_fragments(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVFRAGSIZE) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVFRAGSIZE))
			return true;
	return false;
}

/* False: there is nothing more to read now. */
static bool hear(struct asking *a)
{
	uint8_t buf[sizeof(struct iphdr) + 40 + 8], control[256];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(a->fd, &m, 0);
	size_t at = 0;
	uint16_t mtu;

	if (n < 0)
		return errno != EAGAIN; /* an ICMP error: the next may be an answer */
	if (a->raw && !a->six && n)
		at = (buf[0] & 0xf) * 4u;
	if ((size_t)n < at + 8 || buf[at] != (a->six ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) ||
	    (a->raw && memcmp(buf + at + 4, &a->id, sizeof(a->id))))
		return true;
	mtu = (uint16_t)ld_be16(buf + at + 6);
	if (mtu >= BASE && mtu <= a->most)
		a->answer[mtu] = in_fragments(&m) ? CUT : WHOLE;
	return true;
}

static bool decided(const struct asking *a)
{
	for (uint8_t mtu = a->most; mtu > BASE; mtu--) {
		if (a->answer[mtu] == WHOLE)
			return true;
		if (a->answer[mtu] == NONE)
			return false;
	}
	return true;
}

static uint8_t verdict(const struct asking *a)
{
	bool anything = false;

	for (uint8_t mtu = a->most; mtu >= BASE; mtu--) {
		if (a->answer[mtu] == WHOLE)
			return mtu;
		anything |= a->answer[mtu] == CUT;
	}
	return anything ? BASE : a->most;
}

static void ask_and_hear(struct asking *a)
{
	for (int round = 0; round < ROUNDS && !decided(a); round++) {
		uint64_t end = time_now_ns() + ROUND_MS * 1000000ull, now;

		for (uint8_t mtu = BASE; mtu <= a->most; mtu++)
			if (a->answer[mtu] == NONE)
				ask(a, mtu);
		while (!decided(a) && (now = time_now_ns()) < end) {
			struct pollfd p = {.fd = a->fd, .events = POLLIN};

			if (poll(&p, 1, (int)((end - now) / 1000000) + 1) > 0)
				while (hear(a))
					;
		}
	}
}

/* ---- what was found lately ------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	uint32_t next;
	struct found {
		struct gid src, dst;
		uint8_t most, mtu;
		uint64_t until;
	} found[REMEMBER_MAX];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forked(void)
{
	pthread_mutex_init(&memory.lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* 0: not known. */
static uint8_t recall(const struct cma_id *id)
{
	uint64_t now = time_now_ns();
	uint8_t mtu = 0;

	pthread_mutex_lock(&memory.lock);
	for (size_t i = 0; i < REMEMBER_MAX && !mtu; i++) {
		const struct found *f = &memory.found[i];

		if (now < f->until && f->most == id->path_mtu && gid_equal(&f->src, &id->src) &&
		    gid_equal(&f->dst, &id->dst))
			mtu = f->mtu;
	}
	pthread_mutex_unlock(&memory.lock);
	return mtu;
}

static void remember(const struct cma_id *id, uint8_t mtu)
{
	pthread_mutex_lock(&memory.lock);
	memory.found[memory.next++ % REMEMBER_MAX] =
		(struct found){id->src, id->dst, id->path_mtu, mtu, time_now_ns() + REMEMBER_NS};
	pthread_mutex_unlock(&memory.lock);
}

void cma_probe_path_mtu(struct cma_id *id)
{
	const struct sockaddr *src = &id->api.route.addr.src_addr;
	const struct sockaddr *dst = &id->api.route.addr.dst_addr;
	struct asking a = {.fd = -1, .six = dst->sa_family == AF_INET6, .most = id->path_mtu};
	uint8_t mtu;

	if (id->path_mtu <= BASE || gid_equal(&id->src, &id->dst))
		return;
	mtu = recall(id);
	if (!mtu) {
		a.id = (uint16_t)(id->cookie * 31 + (uint32_t)getpid());
		if (!open_socket(&a, src, dst))
			ask_and_hear(&a);
		if (a.fd >= 0)
			close(a.fd);
		mtu = verdict(&a);
		remember(id, mtu);
		if (mtu < id->path_mtu)
			log_info("cm", "path MTU %u: packets of %u do not come back from the peer",
				 128u << mtu, 128u << id->path_mtu);
	}
	id->path_mtu = mtu;
}
