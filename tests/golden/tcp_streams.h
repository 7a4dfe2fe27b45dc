/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* For tests: what went to and fro over the TCP connections of pcap files. */
#ifndef WEFT_TESTS_GOLDEN_TCP_STREAMS_H
#define WEFT_TESTS_GOLDEN_TCP_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_STREAMS_MAX 64

/* One direction of a connection, from where the capture shows it begin. */
struct tcp_stream {
	uint32_t connection; /* both ports */
	bool from_client;
	uint32_t next_seq;
	uint8_t *bytes;
	size_t len, room;
};

/* Of all files that were read. */
extern struct tcp_stream tcp_streams[TCP_STREAMS_MAX];
extern unsigned tcp_stream_count;

/*
 * Adds what a file has: IPv4 and IPv6, what was sent twice once, and nothing may be lost. A
 * connection that had begun before is passed over. Ends the test's program, with a word, if that
 * does not go.
 */
void tcp_streams_read(const char *path);
/* All that were read. */
void tcp_streams_forget(void);

#endif
