/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A block device of Linux's whose requests this process answers: ublk_drv (Linux 6.0 and later,
 * Documentation/block/ublk.rst). Commands to the driver are io_uring's URING_CMD: of the control
 * device what makes, starts, stops and removes a device; of the device's own one for each request
 * that may be under way, which comes back when there is one, and answers it when it is sent again.
 *
 * The caller's loop waits on ublk_fd() and calls ublk_process(). The driver reads the partition
 * table while it starts a device, so that starting and stopping are no calls that wait, but go on
 * while requests are answered.
 *
 * One queue, driven by the thread that creates the device.
 */
#ifndef WEFT_UBLK_UBLK_H
#define WEFT_UBLK_UBLK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum ublk_op { UBLK_READ, UBLK_WRITE, UBLK_FLUSH, UBLK_DISCARD, UBLK_ZEROES };

struct ublk_request {
	enum ublk_op op;
	bool fua, no_unmap; /* no_unmap: zeroes that are to keep their blocks */
	uint16_t tag;
	uint64_t offset, bytes;
	void *data; /* of this tag, of ublk_config.transfer_max bytes */
};

struct ublk_config {
	uint64_t bytes;		/* of the device */
	uint32_t block_bytes;	/* a power of two, 512 to 4096 */
	uint32_t optimal_bytes; /* a power of two; 0: not known */
	uint32_t transfer_max;	/* bytes of a request, a multiple of pages */
	uint16_t depth;		/* requests under way */
	int32_t id;		/* /dev/ublkb<id>; -1: the first that is free */
	uint32_t zeroes_max;	/* bytes of one request for zeroes; 0: there are none */
	bool read_only, volatile_cache, discards;
	/* A request; it is answered by ublk_answer(), now or later. */
	void (*request)(void *arg, const struct ublk_request *r);
	void *arg;
};

enum ublk_state {
	UBLK_STARTING,
	UBLK_LIVE,
	UBLK_STOPPING,
	UBLK_GONE, /* nothing is under way any more */
};

struct ublk;

/* 0: the driver is there, and is ours to use. -errno and why otherwise, as ublk_create(). */
int ublk_check(char *why, size_t room) must_use;
/* Makes the device, and begins to start it. -errno and why (room bytes), a sentence with what to
 * do. data: depth * transfer_max bytes, page-aligned; the caller's, and outlives it. */
int ublk_create(const struct ublk_config *config, void *data, struct ublk **ret, char *why,
		size_t room) must_use;
int ublk_fd(const struct ublk *u);
/* Handles what has happened, and tells the driver what is to be told; without waiting. */
void ublk_process(struct ublk *u);
/* error: 0 or -errno. */
void ublk_answer(struct ublk *u, uint16_t tag, int error);
/* Begins to take the device away; requests go on until it is UBLK_GONE. */
void ublk_stop(struct ublk *u);
enum ublk_state ublk_state(const struct ublk *u);
/* Why it is gone without having been told to; "" otherwise. */
const char *ublk_error(const struct ublk *u);
uint32_t ublk_id(const struct ublk *u);
/* Removes it from the driver. Must be UBLK_GONE, or have failed to start. */
void ublk_destroy(struct ublk *u);

/* Takes a device away that another process has, or has left behind. -errno and why. */
int ublk_remove(uint32_t id, char *why, size_t room) must_use;

#endif
