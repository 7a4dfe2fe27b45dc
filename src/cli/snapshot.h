/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What processes show, all at about one moment; of two, rates are made. */
#ifndef WEFT_CLI_SNAPSHOT_H
#define WEFT_CLI_SNAPSHOT_H

#include <netinet/in.h>

#include "cli/seen.h"
#include "rnic/rnic.h"

struct snapshot {
	uint64_t at_ns;
	struct seen *v; /* without descriptors */
	size_t count;
};

#define SNAPSHOT_PEER_MAX (INET6_ADDRSTRLEN + 1)
#define DROP_REASONS_MAX  16

/* Of one process, or, for 0, of all that seen_processes() finds. Of one: as seen_open(). */
int snapshot_take(struct snapshot *ret, pid_t pid) must_use;
/* Why it could not be taken, on stderr: returns EXIT_FAILED. */
int snapshot_tell(pid_t pid, int rc);
void snapshot_free(struct snapshot *);
/* The same process in another one; NULL: it is not there, or is another with that number. */
const struct seen *snapshot_same(const struct snapshot *, const struct seen *);

/* Packets that came and were dropped, by the counters that say why. */
struct drops {
	size_t count;
	struct {
		const char *why; /* a literal, or in the table that was read */
		uint64_t packets;
	} v[DROP_REASONS_MAX];
};

/* Of a process: by its cores, its ports, and the kernel before them. */
void seen_drops(const struct seen *, struct drops *ret);
/* Packets that its cores dropped, for whatever reason. */
uint64_t seen_core_drops(const struct seen *);
/* Its queue pairs; free() *ret. False: no memory. */
bool seen_queue_pairs(const struct seen *, struct rnic_qp_row **ret, size_t *ret_count) must_use;
/* How many it has besides, of which it shows nothing. */
uint64_t seen_queue_pairs_unseen(const struct seen *);
/* "RC", "RTS": "?" for what is none. */
const char *qp_row_type(const struct rnic_qp_row *);
const char *qp_row_state(const struct rnic_qp_row *);
/* "" where it has none yet. */
const char *qp_row_congestion(const struct rnic_qp_row *);
struct gid qp_row_gid(uint64_t high, uint64_t low);
/* The peer's address, "-" where it has none. Returns buf. */
const char *qp_row_peer(char buf[SNAPSHOT_PEER_MAX], const struct rnic_qp_row *);
void qp_row_drops(const struct rnic_qp_row *, struct drops *ret);

#endif
