/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/pcap/pcap_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/time.h"
#include "port/pcap/pcap_file.h"

#define TX_BATCH 64

struct pcap_port {
	struct port port; /* first */
	struct port *behind;
	struct pcap_file *file; /* NULL after a fork */
	pcap_clock *clock;
	void *clock_ctx;
	/* Of the call under way. */
	uint64_t ns;
	port_take *take;
	void *take_ctx;
	struct packet_sent sent[TX_BATCH];
};

static struct pcap_port *pcap_port_of(struct port *p)
{
	return (struct pcap_port *)p;
}

static uint64_t system_clock(void *ctx)
{
	struct timespec t;

	(void)ctx;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static bool pcap_take(void *ctx, const struct packet_rx *rx)
{
	struct pcap_port *p = ctx;
	uint8_t icrc[ICRC_LEN];
	struct iovec udp[] = {{(void *)(uintptr_t)rx->data, rx->len}, {icrc, sizeof(icrc)}};

	st_le32(icrc, rx->icrc);
	pcap_file_put(p->file, &(struct pcap_packet){.ns = p->ns,
						     .flow = &rx->flow,
						     .sport = rx->flow.sport,
						     .ip_id = rx->ip_id,
						     .udp = udp,
						     .nudp = ARRAY_SIZE(udp)});
	return p->take(p->take_ctx, rx);
}

static int pcap_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct pcap_port *p = pcap_port_of(port);
	int got;

	if (!p->file)
		return port_rx(p->behind, now, take, ctx);
	p->ns = p->clock(p->clock_ctx);
	p->take = take;
	p->take_ctx = ctx;
	got = port_rx(p->behind, now, pcap_take, p);
	pcap_file_flush(p->file);
	return got;
}

static void put_sent(struct pcap_port *p, const struct packet_tx *t, const struct packet_sent *as)
{
	uint8_t tail[3 + ICRC_LEN] = {0};
	struct iovec udp[PACKET_IOV_MAX + 2] = {{(void *)(uintptr_t)t->hdr, t->hdr_len}};

	memcpy(udp + 1, t->iov, t->niov * sizeof(*udp));
	st_le32(tail + t->pad, as->icrc);
	udp[1 + t->niov] = (struct iovec){tail, t->pad + (size_t)ICRC_LEN};
	pcap_file_put(p->file, &(struct pcap_packet){.sent = true,
						     .ns = p->ns,
						     .flow = t->flow,
						     .sport = as->sport,
						     .ip_id = as->ip_id,
						     .udp = udp,
						     .nudp = t->niov + 2});
}

static size_t pcap_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		      struct packet_sent *ret_sent)
{
	struct pcap_port *p = pcap_port_of(port);
	size_t sent = 0;

	if (!p->file)
		return port_tx(p->behind, pkts, n, ret_sent);
	p->ns = p->clock(p->clock_ctx);
	for (size_t done = 0, count; done < n; done += count) {
		struct packet_sent *as = ret_sent ? ret_sent + done : p->sent;

		count = min_of(n - done, (size_t)TX_BATCH);
		sent += port_tx(p->behind, pkts + done, count, as);
		for (size_t i = 0; i < count; i++)
			if (as[i].sport)
				put_sent(p, &pkts[done + i], &as[i]);
	}
	pcap_file_flush(p->file);
	return sent;
}

static bool pcap_reaches(const struct port *port, const struct flow *f)
{
	return port_reaches(((const struct pcap_port *)port)->behind, f);
}

static void pcap_want_headers(struct port *port)
{
	port_want_headers(pcap_port_of(port)->behind);
}

static void pcap_forked(struct port *port)
{
	struct pcap_port *p = pcap_port_of(port);

	port_forked(p->behind);
	port->fd = p->behind->fd;
	if (p->file)
		pcap_file_close(p->file);
	p->file = NULL;
}

static void pcap_destroy(struct port *port)
{
	struct pcap_port *p = pcap_port_of(port);

	port_destroy(p->behind);
	if (p->file)
		pcap_file_close(p->file);
	free(p);
}

static const struct port_ops pcap_ops = {
	.rx = pcap_rx,
	.tx = pcap_tx,
	.reaches = pcap_reaches,
	.want_headers = pcap_want_headers,
	.forked = pcap_forked,
	.destroy = pcap_destroy,
};

int pcap_port_write(struct port **port, struct pcap_file *file, pcap_clock *clock, void *clock_ctx)
{
	struct pcap_port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->file = file;
	p->clock = clock ? clock : system_clock;
	p->clock_ctx = clock_ctx;
	p->behind = *port;
	p->port = *p->behind;
	p->port.ops = &pcap_ops;
	/* Who looks at packets looks at their TTL, too. */
	port_want_headers(p->behind);
	*port = &p->port;
	return 0;
}

int pcap_port_before(struct port **port, const char *name, pcap_clock *clock, void *clock_ctx,
		     char *err, size_t err_len)
{
	struct pcap_file *file;
	int rc = pcap_file_open(&file, name, err, err_len);

	if (rc)
		return rc;
	rc = pcap_port_write(port, file, clock, clock_ctx);
	if (rc) {
		snprintf(err, err_len, "no memory for a capture");
		pcap_file_close(file);
	}
	return rc;
}
