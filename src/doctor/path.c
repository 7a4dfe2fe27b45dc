/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One question at a time, so that the kernel joins none with the next (GRO): first a short one,
 * then each length from the longest that our interface takes down to one that comes back whole,
 * then classes and marks. A question that is lost is asked some times; one that is too long is lost
 * each time.
 */
#include "doctor/path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/time.h"
#include "doctor/dcb.h"
#include "wire/flow.h"
#include "wire/path_probe.h"

#define TRIES	 5
#define WAIT_MS	 200
#define FIRST_MS 400 /* a neighbour may have to be found first */
#define BASE	 3   /* 1024: what every Ethernet carries */

/* The last two are IPv6's own numbers, which <netinet/in.h> has not all. */
#ifndef IPV6_RECVFRAGSIZE
#define IPV6_RECVFRAGSIZE 77
#endif
#ifndef IP_RECVFRAGSIZE
#define IP_RECVFRAGSIZE 25
#endif

struct asking {
	int fd;
	bool six;
	uint16_t id;
	uint64_t token;
	struct path *path;
};

enum answer { NONE, WHOLE, CUT };

/* ---- one question ---------------------------------------------------------------------------- */

struct heard {
	struct path_probe probe;
	uint8_t tos;
	bool fragments;
	size_t len;
	uint8_t bytes[PATH_PROBE_TOLD];
};

static void see_control(struct msghdr *m, struct heard *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int tclass;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			h->tos = *CMSG_DATA(c);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			memcpy(&tclass, CMSG_DATA(c), sizeof(tclass));
			h->tos = (uint8_t)tclass;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVFRAGSIZE) ||
			   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVFRAGSIZE)) {
			h->fragments = true;
		}
	}
}

/* False: nothing more is there, or it is not the answer to this. */
static bool hear(struct asking *a, struct heard *h, uint16_t id)
{
	_Alignas(struct cmsghdr) char control[256];
	struct iovec iov = {h->bytes, sizeof(h->bytes)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(a->fd, &m, MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0) {
		/* What came is that a router, a rule or the peer's kernel refuses it. */
		if (errno != EAGAIN && errno != EINTR)
			a->path->error = -errno;
		return false;
	}
	h->fragments = false;
	h->tos = 0;
	h->len = (size_t)n;
	see_control(&m, h);
	return path_probe_decode(&h->probe, h->bytes, min_of(h->len, sizeof(h->bytes))) &&
	       h->probe.kind == PATH_PROBE_ANSWER && h->probe.id == id &&
	       h->probe.token == a->token;
}

/* A datagram of so many bytes for a path MTU, in that class. */
static enum answer ask(struct asking *a, size_t len, uint8_t mtu, uint8_t tos, int tries, int ms,
		       struct heard *h)
{
	uint8_t packet[PATH_PROBE_MAX] = {0};

	(void)kernel_socket_set(a->fd, a->six ? IPPROTO_IPV6 : IPPROTO_IP,
				a->six ? IPV6_TCLASS : IP_TOS, tos);
	for (int i = 0; i < tries; i++) {
		struct path_probe p = {PATH_PROBE_ASK, ++a->id, mtu, a->token, true, tos};
		uint64_t end = time_now_ns() + (uint64_t)ms * NSEC_PER_MSEC, now;

		path_probe_encode(&p, packet);
		if (send(a->fd, packet, len, 0) < 0) {
			if (errno == EMSGSIZE)
				return CUT;
			/* An error that came for the one before is told here. */
			a->path->error = -errno;
		}
		while ((now = time_now_ns()) < end) {
			struct pollfd f = {.fd = a->fd, .events = POLLIN};
			bool came = poll(&f, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) > 0;

			if (!came || !hear(a, h, a->id))
				continue;
			a->path->error = 0;
			return h->len >= len && !h->fragments ? WHOLE : CUT;
		}
	}
	return NONE;
}

/* ---- whether there is anybody ---------------------------------------------------------------- */

/* RFC 792 and RFC 4443: the same but for the type. */
struct echo {
	uint8_t type, code;
	uint16_t checksum, id, seq;
	uint64_t token;
};

/* Only a raw IPv4 socket's packets need it. */
static uint16_t checksum(const struct echo *e)
{
	uint16_t words[sizeof(*e) / 2];
	uint32_t sum = 0;

	memcpy(words, e, sizeof(*e));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static bool is_echo(const struct echo *asked, const uint8_t *buf, ssize_t n, bool six, bool raw)
{
	size_t at = raw && !six && n > 0 ? (buf[0] & 0xf) * 4u : 0;

	return n >= (ssize_t)(at + sizeof(*asked)) &&
	       buf[at] == (six ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) &&
	       !memcmp(buf + at + offsetof(struct echo, token), &asked->token,
		       sizeof(asked->token));
}

/* Whether anybody may ask is net.ipv4.ping_group_range's to say; with CAP_NET_RAW there is another
 * way. */
static void ask_echo(struct asking *a, const struct sockaddr *to, socklen_t len)
{
	int icmp = a->six ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	struct echo e = {.type = a->six ? ICMP6_ECHO_REQUEST : ICMP_ECHO,
			 .id = (uint16_t)getpid(),
			 .token = a->token};
	int fd = kernel_socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, icmp);
	bool raw = fd < 0;
	uint8_t buf[128];

	if (raw)
		fd = kernel_socket(to->sa_family, SOCK_RAW | SOCK_CLOEXEC, icmp);
	if (fd < 0)
		return;
	a->path->asked_echo = true;
	for (int i = 0; i < TRIES && !a->path->echoes; i++) {
		uint64_t end = time_now_ns() + WAIT_MS * NSEC_PER_MSEC, now;

		e.seq = (uint16_t)i;
		e.checksum = 0;
		if (!a->six)
			e.checksum = checksum(&e);
		if (sendto(fd, &e, sizeof(e), 0, to, len) < 0)
			break;
		while (!a->path->echoes && (now = time_now_ns()) < end) {
			struct pollfd p = {.fd = fd, .events = POLLIN};

			if (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) > 0)
				a->path->echoes =
					is_echo(&e, buf, recv(fd, buf, sizeof(buf), MSG_DONTWAIT),
						a->six, raw);
		}
	}
	close(fd);
}

static int open_socket(struct asking *a, const struct addrinfo *to)
{
	int one = 1, level = a->six ? IPPROTO_IPV6 : IPPROTO_IP;
	int fd = kernel_socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* What a "too big" makes the kernel believe does not hold a question back: RoCE's packets
	 * go by the interface's MTU, too. */
	(void)kernel_socket_set(fd, level, a->six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
				IP_PMTUDISC_PROBE);
	(void)kernel_socket_set(fd, level, a->six ? IPV6_RECVTCLASS : IP_RECVTOS, one);
	(void)kernel_socket_set(fd, level, a->six ? IPV6_RECVFRAGSIZE : IP_RECVFRAGSIZE, one);
	if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	a->fd = fd;
	return 0;
}

/* ---- what is measured ------------------------------------------------------------------------ */

static uint32_t headers(const struct asking *a)
{
	return (a->six ? 40 : 20) + 8;
}

static void measure_lengths(struct asking *a)
{
	struct path *p = a->path;
	uint8_t most = path_mtu_of(p->iface_mtu ? p->iface_mtu : 1500);
	struct heard h;

	for (uint8_t mtu = most; mtu >= 1 && !p->passes; mtu--) {
		uint32_t len = (uint32_t)path_probe_ip_len(mtu);
		enum answer answer = ask(a, len - headers(a), mtu, 0, TRIES, WAIT_MS, &h);

		if (answer == WHOLE) {
			p->passes = len;
		} else {
			p->fails = len;
			p->answer_cut = answer == CUT;
		}
		if (mtu < BASE && answer == NONE)
			break;
	}
}

static void measure_marks(struct asking *a)
{
	static const uint8_t sent[PATH_MARKS] = {
		[PATH_ECT] = ROCE_DSCP << FLOW_DSCP_SHIFT | FLOW_ECN_ECT0,
		[PATH_CE] = ROCE_DSCP << FLOW_DSCP_SHIFT | FLOW_ECN_CE,
		[PATH_CNP] = ROCE_CNP_DSCP << FLOW_DSCP_SHIFT,
	};

	for (int i = 0; i < PATH_MARKS; i++) {
		struct path_mark *m = &a->path->mark[i];
		struct heard h;

		m->sent = sent[i];
		m->answered = ask(a, PATH_PROBE_TOLD, 1, sent[i], TRIES, WAIT_MS, &h) != NONE;
		m->there = m->answered ? h.probe.tos : 0;
		m->back = m->answered ? h.tos : 0;
	}
}

static void measure(struct asking *a)
{
	struct path *p = a->path;
	struct path_probe_told t;
	struct heard h;

	p->answered = ask(a, PATH_PROBE_TOLD, 1, 0, 1, FIRST_MS, &h) != NONE ||
		      ask(a, PATH_PROBE_TOLD, 1, 0, TRIES, WAIT_MS, &h) != NONE;
	if (!p->answered)
		return;
	p->told = h.probe.more && h.len >= PATH_PROBE_TOLD;
	if (p->told) {
		t = path_probe_hear(h.bytes);
		p->peer_mtu = t.mtu;
		p->peer_room = t.room;
	}
	measure_lengths(a);
	if (p->told)
		measure_marks(a);
}

/* A raw IPv6 socket takes the port for a protocol. */
static const struct sockaddr *without_port(struct sockaddr *a)
{
	if (a->sa_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = 0;
	return a;
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	return a->sa_family == AF_INET6 ? !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
						  &((const struct sockaddr_in6 *)b)->sin6_addr, 16)
					: ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
						  ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

/* By which interface packets leave, which has the address they leave with. */
static void find_iface(struct asking *a, const struct addrinfo *to, const struct iface *v, size_t n)
{
	struct sockaddr_storage own;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&own;
	socklen_t len = sizeof(own);
	char scope[IF_NAMESIZE] = "";
	struct ifaddrs *all;

	if (getsockname(a->fd, (struct sockaddr *)&own, &len) < 0 || getifaddrs(&all) < 0)
		return;
	a->path->here = same_host((struct sockaddr *)&own, to->ai_addr);
	/* A link's own address may be that of several, as a VLAN has its port's. */
	if (own.ss_family == AF_INET6 && v6->sin6_scope_id)
		(void)if_indextoname(v6->sin6_scope_id, scope);
	for (const struct ifaddrs *i = all; i && !a->path->iface[0]; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == own.ss_family &&
		    same_host(i->ifa_addr, (struct sockaddr *)&own) &&
		    (!scope[0] || !strcmp(scope, i->ifa_name)))
			snprintf(a->path->iface, sizeof(a->path->iface), "%s", i->ifa_name);
	freeifaddrs(all);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, a->path->iface))
			a->path->iface_mtu = v[i].mtu;
}

int path_measure(struct path *ret, const char *peer, const struct iface *v, size_t n)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV}, *to;
	struct asking a = {.fd = -1, .path = ret};
	char port[8];
	int rc;

	*ret = (struct path){0};
	snprintf(ret->peer, sizeof(ret->peer), "%s", peer);
	snprintf(port, sizeof(port), "%d", ROCEV2_UDP_PORT);
	if (getaddrinfo(peer, port, &hints, &to) != 0)
		return -EINVAL;
	a.six = to->ai_family == AF_INET6;
	if (getrandom(&a.token, sizeof(a.token), 0) != sizeof(a.token))
		a.token = time_now_ns();
	rc = open_socket(&a, to);
	ret->error = rc;
	if (rc == 0) {
		find_iface(&a, to, v, n);
		measure(&a);
		if (!ret->answered)
			ask_echo(&a, without_port(to->ai_addr), to->ai_addrlen);
		close(a.fd);
	}
	freeaddrinfo(to);
	return 0;
}
