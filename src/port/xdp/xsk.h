/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An AF_XDP socket on one receive queue of an interface, with memory for frames of its own: four
 * rings that it shares with the kernel. Frames to receive into lie in the fill ring or, received,
 * in the receive ring; those to send from are ours, or lie in the send ring or, sent, in the
 * completion ring.
 */
#ifndef WEFT_PORT_XDP_XSK_H
#define WEFT_PORT_XDP_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define XSK_RX_FRAMES 4096
#define XSK_TX_FRAMES 1024
#define XSK_MTU_MAX   3826u /* a frame is a page, of which the kernel keeps a part */

struct xsk_ring {
	uint32_t *producer, *consumer, *flags;
	void *entries;
	uint32_t size; /* a power of two */
	uint32_t at;   /* our end's index, which the other end sees when we publish it */
	void *map;
	size_t map_len;
};

struct xsk {
	int fd;
	uint8_t *frames;
	size_t frames_len;
	uint32_t frame_len;
	struct xsk_ring fill, rx, tx, done;
	uint64_t free[XSK_TX_FRAMES]; /* frames to send from that are ours */
	size_t nfree;
	bool zero_copy;
};

/* The longest frame that is received on an interface of this MTU; 0: its own would not fit. */
uint32_t xsk_longest(uint32_t mtu);
/* -errno, and in what it failed. */
int xsk_open(struct xsk *, uint32_t ifindex, uint32_t queue, uint32_t mtu,
	     const char **ret_what) must_use;
void xsk_close(struct xsk *);
/* In a child of fork(): what it has of its parent's, which is not the memory. */
void xsk_forked(struct xsk *);

/* The next frame received, until there is none (NULL). It is ours until it is given back, in the
 * same order. */
const uint8_t *xsk_rx(struct xsk *, size_t *ret_len);
void xsk_rx_give_back(struct xsk *, const uint8_t *frame);
/* After the last of a batch: the kernel sees what has been given back. */
void xsk_rx_publish(struct xsk *);

/* A frame to send from, to be sent next; NULL: all are under way. */
uint8_t *xsk_tx(struct xsk *);
/* It has been laid out. */
void xsk_tx_put(struct xsk *, const uint8_t *frame, size_t len);
/* Has the kernel send what was put. 0 or -errno; what it did not send stays for the next time. */
int xsk_tx_kick(struct xsk *);
bool xsk_tx_pending(const struct xsk *);
/* -errno: it is broken, its interface gone. */
int xsk_error(const struct xsk *);

#endif
