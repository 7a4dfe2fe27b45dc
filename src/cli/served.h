/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a target's hosts do, as its tables have it (nvmf/target/figures.h), and its words: for
 * `weft stat` and `weft top`, who look into another process, and for the page that `weft serve` has
 * for Prometheus. Rows are read as if anybody had written them.
 */
#ifndef WEFT_CLI_SERVED_H
#define WEFT_CLI_SERVED_H

#include <stdbool.h>

#include "cli/seen.h"
#include "nvmf/target/target.h"

struct served {
	const struct figures_host_row *hosts;
	const struct figures_op_row *ops;
	const struct figures_error_row *errors;
	const struct figures_queue_row *queues;
	const struct figures_queue_error_row *queue_errors;
	const struct figures_reason_row *reasons;
	uint32_t host_count, op_count, error_count, queue_count, queue_error_count, reason_count;
	void *memory; /* its own, if it has any */
};

/* The own tables, of all groups together, count of them and one at least: served_free(). False: no
 * memory. */
bool served_here(const struct target_figures *const *f, unsigned count,
		 struct served *ret) must_use;
/* Those of a process likewise. */
bool served_seen(const struct seen *s, struct served *ret) must_use;
/* As they are now. False: no memory. */
bool served_copy(const struct served *v, struct served *ret) must_use;
void served_free(struct served *v);
/* Several as one, of its own memory. False: no memory. */
bool served_merge(const struct served *parts, unsigned count, struct served *ret) must_use;

/* What the thing of one of now's rows of commands had come to before; NULL: nothing. */
const struct figures_op_row *served_op_before(const struct served *before, const struct served *now,
					      uint32_t i);

#define SERVED_NQN_MAX	  (FIGURES_NQN_WORDS * 8 + 1)
#define SERVED_REASON_MAX (FIGURES_REASON_WORDS * 8 + 1)
#define SERVED_OPCODE_MAX 48

/* Texts of a row, terminated; "" for a row that is not there. Return buf. */
const char *served_subsystem(const struct served *v, uint64_t host, char buf[SERVED_NQN_MAX]);
const char *served_host(const struct served *v, uint64_t host, char buf[SERVED_NQN_MAX]);
const char *served_reason(const struct figures_reason_row *r, char buf[SERVED_REASON_MAX]);
/* "write_zeroes", "keep_alive", "connect"; "unknown". */
const char *served_opcode(uint64_t opcode, char buf[SERVED_OPCODE_MAX]);
/* Of an I/O queue. */
static inline bool served_is_io(uint64_t opcode)
{
	return opcode >> 8 == FIGURES_IO >> 8;
}
const char *served_status(uint64_t opcode, uint64_t status);
/* The queue of a row; NULL: there is none. */
static inline const struct figures_queue_row *served_queue(const struct served *v,
							   const struct figures_queue_error_row *r)
{
	if (!r->count || r->queue >= v->queue_count || !v->queues[r->queue].entries)
		return NULL;
	return &v->queues[r->queue];
}
const char *served_queue_status(const struct figures_queue_error_row *r);
const char *served_transport(uint64_t trtype);

#endif
