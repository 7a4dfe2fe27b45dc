/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The streams of queue pairs of iWARP: who makes them (librdmacm) and what becomes of them. */
#ifndef WEFT_VERBS_STREAM_H
#define WEFT_VERBS_STREAM_H

#include "verbs/qp.h"

/* A shard for them, and their port; 0 or -errno, with a line in the log. */
int stream_shard_open(struct shard **ret, const struct shard_upcalls *) must_use;
/* With the shard's lock held, before the queue pair is destroyed or reset: of any type. */
void stream_drop(struct face_qp *);
/* At the end of the process, with the lock held: for a moment, until what was sent is with its
 * peers. Only of streams that were ended. */
void stream_linger_at_exit(struct shard *);

#endif
