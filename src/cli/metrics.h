/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The page of `weft serve --metrics`, by HTTP, in the one loop of the service: libmicrohttpd is
 * asked for a descriptor, and works when that is readable or a time has come.
 *
 * Whoever reaches the address may read it, and nobody harms the service by it: there are few
 * connections, each for a few seconds in all, however slowly it reads; requests are small; and
 * the page is made once a second at most, less often if that takes long, for all who ask meanwhile.
 * The loop only copies the figures. A thread makes text of the copy, and who asks waits for it.
 */
#ifndef WEFT_CLI_METRICS_H
#define WEFT_CLI_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct metrics;

/* The figures as they are: a copy. NULL: no memory. */
typedef void *metrics_take_fn(void *ctx);
/* A page of them, to be freed, NULL: no memory; the copy is freed. In a thread of its own. */
typedef char *metrics_make_fn(void *taken, size_t *ret_len);

#ifdef WEFT_HAVE_METRICS
/* Whether it is an address at all, as metrics_create() takes it; else why. */
bool metrics_address_valid(const char *at, char *why, size_t room) must_use;
/* At ADDRESS:PORT or [ADDRESS]:PORT. -errno and why. */
int metrics_create(const char *at, metrics_take_fn *take, metrics_make_fn *make, void *ctx,
		   struct metrics **ret, char *why, size_t room) must_use;
/* Readable when there is something to process. */
int metrics_fd(const struct metrics *m);
void metrics_process(struct metrics *m, uint64_t now_ns);
uint64_t metrics_next_deadline(const struct metrics *m);
void metrics_destroy(struct metrics *m); /* NULL: nothing */
#endif

#endif
