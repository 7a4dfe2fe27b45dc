// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What path MTU the way to a peer carries.
 *
 * Our interface says what we may send. A peer on the same link whose interface takes less receives
 * and sends no full packets, and nobody says so: routers answer "too big", links lose. The standard
 * has the peer's CM refuse such a REQ (reason 26, see cm/cm.h); Linux's takes it, and then
 * whatever needs a full packet vanishes. So datagrams of a full packet's size go first, as
 * probes in the sense of RFC 4821, and must come back in one piece: a peer that can not send as
 * much answers in fragments. Only path MTUs beyond what every Ethernet carries are asked about.
 *
 * They are ICMP echo requests, which any host may answer, and, where we may send none or none is
 * answered at once, datagrams that another weft's broker answers (wire/path_probe.h). So they are
 * where echoes come in fragments: the peer's kernel may have been told by anybody that the way
 * carries less, which its broker does not believe. Where nothing comes back, nothing is known, and
 * less than what the interface carries is safe.
 */
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/kernel_socket.h"
#include "base/log.h"
#include "base/time.h"
#include "rdmacm/iw.h"
#include "wire/flow.h"
#include "wire/path_probe.h"

#define BASE	     3 /* 1024: never asked for less */
#define LARGEST	     5
#define ROUNDS	     4
#define ROUND_MS     50
#define REMEMBER_NS  (10 * NSEC_PER_SEC)
#define REMEMBER_MAX 32

/* RFC 792 and RFC 4443: the same but for the type. Behind it comes the token, and zeroes. */
struct echo {
	uint8_t type, code;
	uint16_t checksum, id, seq;
	uint64_t token;
};

enum answer { NONE, WHOLE, CUT, FRAGMENTS };
enum way { ECHO, PROBE, WAYS };

struct asking {
	int fd[WAYS]; /* -1: not this way */
	bool six, raw;
	uint16_t id;
	uint64_t token;
	uint8_t most;
	bool doubts;			 /* what came in fragments is asked for once more */
	enum answer answer[LARGEST + 1]; /* by path MTU */
};

/* ---- the sockets ----------------------------------------------------------------------------- */

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

/* To the peer's port, or to none; nothing leaves or arrives in fragments unnoticed. What a "too
 * big" has made the kernel believe of the way does not hold a probe back: anybody can send one, and
 * the RNIC's packets go by the interface's MTU, too. Takes over fd; -1 if that can not be. */
static int join_ends(int fd, const struct sockaddr *src, const struct sockaddr *dst, uint16_t port)
{
	bool six = dst->sa_family == AF_INET6;
	struct sockaddr_storage from = {0}, to = {0};

	if (fd < 0)
		return -1;
	memcpy(&from, src, cma_addr_len(src));
	memcpy(&to, dst, cma_addr_len(dst));
	cma_addr_set_port((struct sockaddr *)&from, 0);
	cma_addr_set_port((struct sockaddr *)&to, port);
	if ((six ? set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) ||
			     set(fd, IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1)
		 : set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) ||
			     set(fd, IPPROTO_IP, IP_RECVFRAGSIZE, 1)) ||
	    bind(fd, (struct sockaddr *)&from, cma_addr_len(src)) ||
	    connect(fd, (struct sockaddr *)&to, cma_addr_len(dst))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void open_sockets(struct asking *a, const struct sockaddr *src, const struct sockaddr *dst)
{
	int flags = SOCK_CLOEXEC | SOCK_NONBLOCK, icmp = a->six ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	int fd = kernel_socket(dst->sa_family, SOCK_DGRAM | flags, icmp);

	/* Whether anybody may is net.ipv4.ping_group_range's to say; with CAP_NET_RAW there is
	 * another way. */
	a->raw = fd < 0;
	if (a->raw)
		fd = kernel_socket(dst->sa_family, SOCK_RAW | flags, icmp);
	a->fd[ECHO] = join_ends(fd, src, dst, 0);
	fd = kernel_socket(dst->sa_family, SOCK_DGRAM | flags, 0);
	a->fd[PROBE] = join_ends(fd, src, dst, ROCEV2_UDP_PORT);
}

static void close_sockets(struct asking *a)
{
	for (int way = 0; way < WAYS; way++)
		if (a->fd[way] >= 0)
			close(a->fd[way]);
}

/* ---- asking and answers ---------------------------------------------------------------------- */

/* Only a raw IPv4 socket's packets need it. */
static uint16_t checksum(const struct echo *e)
{
	uint32_t sum = (uint32_t)htons((uint16_t)(e->type << 8)) + e->id + e->seq;

	for (int at = 0; at < 64; at += 16)
		sum += (uint16_t)(e->token >> at);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* What a packet for a path MTU has behind the IP header, and behind UDP's. */
static size_t packet_len(const struct asking *a, enum way way, uint8_t mtu)
{
	return path_probe_ip_len(mtu) - (a->six ? 40 : 20) - (way == PROBE ? 8 : 0);
}

static void ask(struct asking *a, enum way way, uint8_t mtu)
{
	uint8_t packet[PATH_PROBE_MAX] = {0};

	if (way == ECHO) {
		struct echo e = {.type = a->six ? ICMP6_ECHO_REQUEST : ICMP_ECHO,
				 .id = a->id,
				 .seq = htons(mtu),
				 .token = a->token};

		if (!a->six)
			e.checksum = checksum(&e);
		memcpy(packet, &e, sizeof(e));
	} else {
		path_probe_encode(&(struct path_probe){PATH_PROBE_ASK, a->id, mtu, a->token},
				  packet);
	}
	if (send(a->fd[way], packet, packet_len(a, way, mtu), 0) < 0 && errno == EMSGSIZE)
		a->answer[mtu] = CUT; /* our interface takes less by now */
}

static bool in_fragments(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVFRAGSIZE) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVFRAGSIZE))
			return true;
	return false;
}

/* The path MTU that an answer is about, or 0; one that is short says no. */
static uint8_t hear_echo(const struct asking *a, const uint8_t *buf, size_t len)
{
	size_t at = a->raw && !a->six && len ? (buf[0] & 0xf) * 4u : 0;

	if (len < at + sizeof(struct echo) ||
	    buf[at] != (a->six ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) ||
	    memcmp(buf + at + offsetof(struct echo, token), &a->token, sizeof(a->token)) ||
	    (a->raw && memcmp(buf + at + 4, &a->id, sizeof(a->id))))
		return 0;
	return (uint8_t)ld_be16(buf + at + 6);
}

static uint8_t hear_probe(const struct asking *a, const uint8_t *buf, size_t len)
{
	struct path_probe p;

	if (!path_probe_decode(&p, buf, len) || p.kind != PATH_PROBE_ANSWER || p.id != a->id ||
	    p.token != a->token)
		return 0;
	return p.mtu;
}

/* False: there is nothing more to read now. */
static bool hear(struct asking *a, enum way way)
{
	uint8_t buf[sizeof(struct iphdr) + 40 + sizeof(struct echo)], control[256];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(a->fd[way], &m, MSG_TRUNC);
	size_t len = min_of((size_t)n, sizeof(buf));
	uint8_t mtu;

	if (n < 0)
		return errno != EAGAIN; /* an ICMP error: the next may be an answer */
	mtu = way == ECHO ? hear_echo(a, buf, len) : hear_probe(a, buf, len);
	if (mtu < BASE || mtu > a->most)
		return true;
	if (in_fragments(&m) && way == ECHO) {
		if (a->answer[mtu] == NONE)
			a->answer[mtu] = FRAGMENTS;
	} else if (!in_fragments(&m) && (size_t)n >= packet_len(a, way, mtu)) {
		a->answer[mtu] = WHOLE;
	} else if (a->answer[mtu] != WHOLE) {
		a->answer[mtu] = CUT;
	}
	return true;
}

static bool decided(const struct asking *a)
{
	for (uint8_t mtu = a->most; mtu > BASE; mtu--) {
		if (a->answer[mtu] == WHOLE)
			return true;
		if (a->answer[mtu] == NONE || (a->doubts && a->answer[mtu] == FRAGMENTS))
			return false;
	}
	return true;
}

static uint8_t verdict(const struct asking *a)
{
	for (uint8_t mtu = a->most; mtu > BASE; mtu--)
		if (a->answer[mtu] == WHOLE)
			return mtu;
	return BASE;
}

static bool answered(const struct asking *a)
{
	for (uint8_t mtu = BASE; mtu <= a->most; mtu++)
		if (a->answer[mtu] != NONE)
			return true;
	return false;
}

static void hear_for(struct asking *a, int ms)
{
	uint64_t end = time_now_ns() + (uint64_t)ms * NSEC_PER_MSEC, now;

	while (!decided(a) && (now = time_now_ns()) < end) {
		struct pollfd p[WAYS] = {{.fd = a->fd[ECHO], .events = POLLIN},
					 {.fd = a->fd[PROBE], .events = POLLIN}};

		if (poll(p, WAYS, (int)((end - now) / NSEC_PER_MSEC) + 1) <= 0)
			continue;
		for (int way = 0; way < WAYS; way++)
			while (p[way].revents && hear(a, (enum way)way))
				;
	}
}

static void ask_and_hear(struct asking *a)
{
	for (int round = 0; round < ROUNDS && !decided(a); round++) {
		for (int way = 0; way < WAYS; way++) {
			if (a->fd[way] < 0 || (way == PROBE && !round && a->fd[ECHO] >= 0))
				continue;
			for (uint8_t mtu = BASE; mtu <= a->most; mtu++)
				if (a->answer[mtu] == NONE)
					ask(a, (enum way)way, mtu);
		}
		hear_for(a, ROUND_MS);
	}
	a->doubts = a->fd[PROBE] >= 0;
	if (decided(a))
		return;
	for (uint8_t mtu = BASE; mtu <= a->most; mtu++)
		if (a->answer[mtu] == FRAGMENTS)
			ask(a, PROBE, mtu);
	hear_for(a, ROUND_MS);
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

/* ---- the outside ----------------------------------------------------------------------------- */

/* What the user knows better; 0: nothing. */
static uint8_t setting(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *s = secure_getenv("WEFT_PATH_MTU");

	for (uint8_t mtu = 1; s && *s && mtu <= LARGEST; mtu++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", 128u << mtu);
		if (strcmp(s, text) == 0)
			return mtu;
	}
	if (s && *s && !atomic_flag_test_and_set(&said))
		log_warn("cm", "WEFT_PATH_MTU=%s is none of 256, 512, 1024, 2048 and 4096", s);
	return 0;
}

/* A packet to an address of this host meets no link. */
static bool stays_here(const struct sockaddr *dst)
{
	struct sockaddr_storage src;
	struct gid a, b;

	if (cma_source_for(NULL, dst, &src))
		return false;
	a = cma_addr_gid((struct sockaddr *)&src);
	b = cma_addr_gid(dst);
	return gid_equal(&a, &b);
}

static uint8_t probe(const struct cma_id *id)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const struct sockaddr *src = &id->api.route.addr.src_addr;
	const struct sockaddr *dst = &id->api.route.addr.dst_addr;
	struct asking a = {.six = dst->sa_family == AF_INET6,
			   .most = id->path_mtu,
			   .id = (uint16_t)(id->cookie * 31 + (uint32_t)getpid())};

	if (stays_here(dst))
		return id->path_mtu;
	/* Nobody who has not seen the question shall make us believe in too much. */
	if (getrandom(&a.token, sizeof(a.token), 0) != sizeof(a.token))
		return BASE;
	open_sockets(&a, src, dst);
	ask_and_hear(&a);
	close_sockets(&a);
	if (answered(&a) && verdict(&a) < id->path_mtu)
		log_info("cm", "path MTU %u: packets of %u do not come back from the peer",
			 128u << verdict(&a), 128u << id->path_mtu);
	else if (!answered(&a) && !atomic_flag_test_and_set(&said))
		log_info("cm",
			 "path MTU %u: the peer answers no echo request%s, so that it is not known "
			 "whether it takes %u as our interface does; WEFT_PATH_MTU=%u says so",
			 128u << BASE, a.fd[ECHO] < 0 ? ", or we may send none" : "",
			 128u << id->path_mtu, 128u << id->path_mtu);
	return verdict(&a);
}

bool cma_path_mtu_settled(const struct cma_id *id)
{
	return cma_is_iw(id) || setting() || id->path_mtu <= BASE ||
	       gid_equal(&id->src, &id->dst) || recall(id);
}

void cma_probe_path_mtu(struct cma_id *id)
{
	uint8_t mtu = setting();

	if (cma_is_iw(id)) /* TCP sees to it */
		return;
	if (mtu) {
		id->path_mtu = min_of(id->path_mtu, mtu);
		return;
	}
	if (id->path_mtu <= BASE || gid_equal(&id->src, &id->dst))
		return;
	mtu = recall(id);
	if (!mtu) {
		mtu = probe(id);
		remember(id, mtu);
	}
	id->path_mtu = mtu;
}
