/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "tcp_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "pcap_file.h"

#define PROTOCOL_TCP 6
#define TCP_SYN	     2u
#define TCP_ACK	     16u

struct tcp_stream tcp_streams[TCP_STREAMS_MAX];
unsigned tcp_stream_count;
static unsigned before; /* streams of earlier files */

static void end(const char *why, const struct pcap_frame *f)
{
	fprintf(stderr, "%s, frame %d: %s\n", f->file, f->number, why);
	exit(1);
}

static struct tcp_stream *stream_of(uint32_t connection, bool from_client)
{
	for (unsigned i = tcp_stream_count; i-- > before;)
		if (tcp_streams[i].connection == connection &&
		    tcp_streams[i].from_client == from_client)
			return &tcp_streams[i];
	return NULL;
}

static void begin(uint32_t connection, bool from_client, uint32_t seq, const struct pcap_frame *f)
{
	if (tcp_stream_count == TCP_STREAMS_MAX)
		end("more connections than expected", f);
	tcp_streams[tcp_stream_count++] = (struct tcp_stream){
		.connection = connection, .from_client = from_client, .next_seq = seq + 1};
}

static void append(struct tcp_stream *s, const uint8_t *p, size_t len)
{
	while (s->room < s->len + len) {
		s->room = s->room ? 2 * s->room : 4096;
		s->bytes = realloc(s->bytes, s->room);
		if (!s->bytes)
			abort();
	}
	memcpy(s->bytes + s->len, p, len);
	s->len += len;
}

/* The TCP segment of a frame, of len bytes; NULL: it has none. */
static const uint8_t *segment(const struct pcap_frame *f, size_t *ret_len)
{
	struct cursor c = cursor_init(f->bytes, f->len);
	const uint8_t *ip;
	size_t head, all;
	uint16_t type;

	cursor_skip(&c, 12);
	type = cursor_be16(&c);
	ip = c.p;
	if (type == 0x0800 && cursor_left(&c) >= 20 && ip[9] == PROTOCOL_TCP) {
		head = (ip[0] & 15u) * 4;
		all = ld_be16(ip + 2);
	} else if (type == 0x86dd && cursor_left(&c) >= 40 && ip[6] == PROTOCOL_TCP) {
		head = 40;
		all = head + ld_be16(ip + 4);
	} else {
		return NULL;
	}
	if (all < head + 20 || all > cursor_left(&c))
		end("cut off", f);
	*ret_len = all - head;
	return ip + head;
}

static void take_frame(void *ctx, const struct pcap_frame *f)
{
	size_t len = 0, head, skip;
	const uint8_t *tcp = segment(f, &len);
	uint32_t seq, connection;
	struct tcp_stream *s;
	uint16_t from, to;
	bool from_client;

	(void)ctx;
	if (!tcp)
		return;
	head = (tcp[12] >> 4) * 4u;
	from = ld_be16(tcp);
	to = ld_be16(tcp + 2);
	seq = ld_be32(tcp + 4);
	/* A client's port is the greater one: Linux takes it from 32768 on. */
	from_client = from > to;
	connection = from_client ? (uint32_t)from << 16 | to : (uint32_t)to << 16 | from;
	if (head > len)
		end("cut off", f);
	if (tcp[13] & TCP_SYN) {
		if (from_client == !!(tcp[13] & TCP_ACK))
			end("which side is the client?", f);
		if (!stream_of(connection, from_client))
			begin(connection, from_client, seq, f);
		return;
	}
	s = stream_of(connection, from_client);
	if (!s || len == head)
		return;
	skip = s->next_seq - seq; /* of what is known already */
	if ((int32_t)skip < 0)
		end("something before it is not there", f);
	if (skip >= len - head)
		return;
	append(s, tcp + head + skip, len - head - skip);
	s->next_seq += (uint32_t)(len - head - skip);
}

void tcp_streams_read(const char *path)
{
	before = tcp_stream_count;
	if (pcap_file_read(path, take_frame, NULL) != 0) {
		fprintf(stderr, "%s: no such pcap file\n", path);
		exit(1);
	}
}

void tcp_streams_forget(void)
{
	while (tcp_stream_count)
		free(tcp_streams[--tcp_stream_count].bytes);
	memset(tcp_streams, 0, sizeof(tcp_streams));
}
