/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What can be seen of a running process from outside: tables of counters in memory that it shares
 * with whoever may look. A room takes a table when it begins and counts there by plain increments;
 * what is made of the figures is the reader's business (weft stat, weft top, weft trace).
 *
 * The memory is a memfd, of which nothing but its descriptor exists: a reader finds that below
 * /proc/PID/fd by the link's name, and whether it may open it is the kernel's decision, by the rule
 * for looking into a process: root and the same user. So nobody hands it out, and it is there
 * without a broker, before one and after one. It can be neither shrunk nor grown. Who may open it
 * may also write into it: a process never relies on what it reads there, but for what it traces.
 *
 * In a child of fork() the tables of its parent are memory of its own that nobody sees; what it
 * takes itself is its own. A process that gets no such memory counts in memory that is private.
 * Each of the libraries has a memfd of its own, and another when that is full: a process may have
 * several.
 *
 * Counters are of 64 bits, written by one thread at a time or atomically, read at any time. Their
 * names come from the room's .def: X(name, unit, one sentence), which also makes the keys of the
 * JSON form and the table in the manual, weft-counters(7).
 */
#ifndef WEFT_BASE_SIGHT_H
#define WEFT_BASE_SIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define SIGHT_NAME	   "weft-sight" /* of the memfd */
#define SIGHT_MAGIC	   0x3154534754464557ull
#define SIGHT_BYTES	   (4u << 20) /* of which only what is used takes memory */
#define SIGHT_TABLES_MAX   32
#define SIGHT_MEMORIES_MAX 80 /* of one library or program */
#define SIGHT_ROOM_MAX	   24
#define SIGHT_KEYS_MAX	   1024

/* A table: rows of figures, and their names, each followed by a blank. */
struct sight_entry {
	char room[SIGHT_ROOM_MAX];
	uint32_t in_use;
	uint32_t columns, rows;
	uint64_t offset; /* of the first row in the memory */
	char keys[SIGHT_KEYS_MAX];
};

struct sight_head {
	uint64_t magic;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint32_t count;	   /* of entries; one that is counted is whole */
	struct sight_entry entries[SIGHT_TABLES_MAX];
};

/* Takes a table of zeros; room is a literal. Another user of the same room, a second shard
 * perhaps, has one of its own. NULL: there is no memory at all. */
void *sight_take(const char *room, const char *keys, size_t columns, size_t rows);
/* So many tables, of so many bytes, which the caller takes next: they belong together, and whoever
 * sees the first finds the others behind it. */
void sight_together(size_t bytes, unsigned int tables);
/* Nobody uses it any more. */
void sight_release(void *table); /* NULL: nothing */

/* Of a struct that is made of a .def alone. */
#define SIGHT_COLUMNS(row) (sizeof(row) / sizeof(uint64_t))

#endif
