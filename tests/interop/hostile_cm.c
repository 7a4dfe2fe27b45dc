/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One who puts whatever source address he likes into packets for a connection manager, and sees no
 * answer:
 *
 *	hostile_cm req   SRC DST PORT N RATE		requests to connect
 *	hostile_cm stale SRC DST PORT N RATE GUID QPN	so, each of the next queue pair of that
 *adapter hostile_cm sidr  SRC DST PORT N RATE		requests for a service's queue pair
 *	hostile_cm junk  SRC DST PORT N RATE		MADs of any class and attribute
 *
 * SRC "any": each from another of 11.0.0.0/8. RATE: in a second, 0 for as many as it can. It needs
 *a raw socket, and is for network namespaces only: DST must be in 10.77.0.0/16
 *(tests/interop/lab.py).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/time.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/icrc.h"

struct packet {
	struct iphdr ip;
	struct udphdr udp;
	uint8_t roce[BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN];
};

struct attack {
	const char *mode;
	struct gid src, dst;
	bool any;
	uint16_t port;
	uint64_t guid;
	uint32_t qpn;
	uint64_t random;
};

static uint32_t rnd(struct attack *a)
{
	a->random = a->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(a->random >> 32);
}

static struct gid gid_of(const char *text)
{
	struct gid g = {{[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, g.raw + 12) != 1) {
		fprintf(stderr, "hostile_cm: %s is no IPv4 address\n", text);
		exit(2);
	}
	return g;
}

static void put_ip_hdr(const struct attack *a, uint8_t *private_data)
{
	struct cm_ip_hdr h = {.ip_version = 4, .port = 40000, .src = a->src, .dst = a->dst};

	cm_ip_hdr_encode(&h, private_data);
}

static void make_mad(struct attack *a, uint32_t nr, uint8_t mad[MAD_LEN])
{
	struct cm_msg m = {.hdr = {.base_version = MAD_BASE_VERSION,
				   .mgmt_class = CM_CLASS,
				   .class_version = CM_CLASS_VERSION,
				   .method = 3,
				   .tid = (uint64_t)rnd(a) << 32 | nr}};

	if (strcmp(a->mode, "junk") == 0) {
		for (int i = 0; i < MAD_LEN; i++)
			mad[i] = (uint8_t)rnd(a);
		if (nr & 1)
			memcpy(mad, (uint8_t[]){1, CM_CLASS, CM_CLASS_VERSION, 3}, 4);
		if (nr & 2)
			st_be16(mad + 16, (uint16_t)(CM_ATTR_REQ + nr / 4 % 12));
		return;
	}
	if (strcmp(a->mode, "sidr") == 0) {
		m.hdr.attr_id = CM_ATTR_SIDR_REQ;
		m.sidr_req.request_id = rnd(a);
		m.sidr_req.service_id = CM_SERVICE_ID(CM_PS_UDP, a->port);
		put_ip_hdr(a, m.sidr_req.private_data);
	} else {
		m.hdr.attr_id = CM_ATTR_REQ;
		m.req.local_comm_id = rnd(a);
		m.req.service_id = CM_SERVICE_ID(CM_PS_TCP, a->port);
		m.req.local_ca_guid = a->guid ? a->guid : rnd(a);
		m.req.local_qpn = (a->guid ? a->qpn + nr : rnd(a)) & QPN_MASK;
		m.req.local_cm_response_timeout = m.req.remote_cm_response_timeout = 20;
		m.req.max_cm_retries = 15;
		m.req.path_mtu = 3;
		m.req.pkey = PKEY_DEFAULT;
		m.req.primary.local_ack_timeout = 19;
		put_ip_hdr(a, m.req.private_data);
		/* What a target of NVMe/RDMA wants to see: queue 0 of 32 entries. */
		st_le16(m.req.private_data + CM_IP_HDR_LEN + 4, 32);
		st_le16(m.req.private_data + CM_IP_HDR_LEN + 6, 31);
	}
	cm_msg_encode(&m, mad);
}

static void make_packet(struct attack *a, uint32_t nr, struct packet *p)
{
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_UD_SEND_ONLY,
				    .pkey = PKEY_DEFAULT,
				    .dqpn = GSI_QPN,
				    .psn = nr & PSN_MASK},
			    .deth = {.qkey = GSI_QKEY, .sqpn = GSI_QPN}};
	struct flow flow = {.dgid = a->dst, .sport = 50000};
	size_t at;
	struct icrc c;

	if (a->any)
		st_be32(a->src.raw + 12, 0x0b000000 | rnd(a) >> 8);
	flow.sgid = a->src;
	*p = (struct packet){.ip = {.version = 4,
				    .ihl = 5,
				    .ttl = 64,
				    .protocol = IPPROTO_UDP,
				    .frag_off = htons(IP_DF),
				    .tot_len = htons(sizeof(*p)),
				    .id = htons(1)},
			     .udp = {.source = htons(flow.sport),
				     .dest = htons(ROCEV2_UDP_PORT),
				     .len = htons(sizeof(*p) - sizeof(p->ip))}};
	memcpy(&p->ip.saddr, a->src.raw + 12, 4);
	memcpy(&p->ip.daddr, a->dst.raw + 12, 4);
	at = (size_t)pkt_hdr_encode(&h, p->roce);
	make_mad(a, nr, p->roce + at);
	at += MAD_LEN;
	c = icrc_begin(&flow, 1, at + ICRC_LEN, p->roce, at);
	st_le32(p->roce + at, icrc_end(c));
}

int main(int argc, char **argv)
{
	struct attack a = {.random = (uint64_t)getpid() << 32};
	struct sockaddr_in to = {.sin_family = AF_INET};
	uint64_t begin = time_now_ns();
	unsigned long n, rate, sent = 0;
	struct packet p;
	int fd;

	if (argc != 7 && argc != 9) {
		fprintf(stderr, "usage: hostile_cm MODE SRC DST PORT N RATE [GUID QPN]\n");
		return 2;
	}
	a.mode = argv[1];
	a.any = strcmp(argv[2], "any") == 0;
	a.src = gid_of(a.any ? "11.0.0.1" : argv[2]);
	a.dst = gid_of(argv[3]);
	a.port = (uint16_t)atoi(argv[4]);
	n = strtoul(argv[5], NULL, 0);
	rate = strtoul(argv[6], NULL, 0);
	if (argc == 9) {
		a.guid = strtoull(argv[7], NULL, 0);
		a.qpn = (uint32_t)strtoul(argv[8], NULL, 0);
	}
	if (memcmp(a.dst.raw + 12, (uint8_t[]){10, 77}, 2) &&
	    memcmp(a.dst.raw + 12, (uint8_t[]){192, 168, 77}, 3)) {
		fprintf(stderr, "hostile_cm: %s is not of a test's namespace\n", argv[3]);
		return 2;
	}
	fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	if (fd < 0) {
		perror("hostile_cm: raw socket");
		return 77;
	}
	memcpy(&to.sin_addr, a.dst.raw + 12, 4);
	for (uint32_t i = 0; i < n; i++) {
		while (rate && i > (time_now_ns() - begin) * rate / NSEC_PER_SEC)
			nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
		make_packet(&a, i, &p);
		if (sendto(fd, &p, sizeof(p), 0, (void *)&to, sizeof(to)) == sizeof(p))
			sent++;
		else if (errno != ENOBUFS && errno != EAGAIN) {
			perror("hostile_cm: send");
			return 1;
		}
	}
	printf("sent %lu in %.1f s\n", sent, (double)(time_now_ns() - begin) / 1e9);
	return 0;
}
