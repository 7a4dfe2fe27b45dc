/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a running process shows of itself (base/sight.h), read from outside: a copy, whose figures
 * were so at about the same time. The process may be anybody's and write what it likes: what is
 * read here is checked for its form, and its names are of letters, digits, '_' and '-'.
 */
#ifndef WEFT_CLI_SEEN_H
#define WEFT_CLI_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sight.h"

#define SEEN_COLUMNS_MAX 128

struct seen_table {
	char room[SIGHT_ROOM_MAX];
	char text[SIGHT_KEYS_MAX];
	const char *keys[SEEN_COLUMNS_MAX]; /* in text */
	uint32_t columns, rows;
	uint64_t *v;	 /* rows * columns; NULL: not asked for */
	int fd;		 /* of the memory; borrowed */
	uint64_t offset; /* there */
};

struct seen {
	pid_t pid;
	uid_t uid;
	uint64_t since_ns; /* CLOCK_MONOTONIC; of the oldest */
	uint64_t drops;	   /* of its sockets on port 4791, full or deaf: packets */
	struct seen_table *v;
	size_t count;
	int *fds; /* one for each memory */
	size_t fd_count;
};

/* Opens what the process shows, for writing, too, if asked for: who traces writes. -ESRCH: there is
 * no such process; -EACCES: it is another user's; -ENOENT: it shows nothing. */
int seen_open(struct seen *ret, pid_t pid, bool write) must_use;
/* Reads the tables of all rooms but "trace". Called again, it does so anew. -errno. */
int seen_read(struct seen *) must_use;
/* Closes it for reading; what was read stays. */
void seen_hang_up(struct seen *);
void seen_close(struct seen *);
/* The n-th table of a room; NULL: there are no so many. */
const struct seen_table *seen_room(const struct seen *, const char *room, size_t n);
/* Where a column is; UINT32_MAX: there is none of that name. */
uint32_t seen_column(const struct seen_table *, const char *key);
/* By the name of the column; 0 where there is none of that name. */
uint64_t seen_value(const struct seen_table *, uint32_t row, const char *key);
/* A counter of a room, of all its tables: a process may have several. */
uint64_t seen_sum(const struct seen *, const char *room, const char *key);

/* Processes of this network namespace that can be looked into and show something, by their
 * numbers. free() *ret. */
int seen_processes(pid_t **ret, size_t *ret_count) must_use;

#endif
