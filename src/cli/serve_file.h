/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What `weft serve` is told to serve: a FILE, or KIND:SIZE for a disk that is made when it begins;
 * each perhaps with ,ro or ,rw behind it.
 */
#ifndef WEFT_CLI_SERVE_FILE_H
#define WEFT_CLI_SERVE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct store;

/* A kind of disk that is made. */
struct made_disk {
	const char *usage; /* "null:SIZE" */
	int (*create)(uint64_t size, uint32_t block_size, struct store **ret);
	bool forgets; /* what it holds ends with the service: at each start it is another disk */
};

enum serve_access { SERVE_AS_ALL, SERVE_READ_ONLY, SERVE_READ_WRITE };

struct serve_file {
	char *path; /* to be freed; of a disk that is made what it was called, as mem:1g */
	const struct made_disk *made; /* or NULL: a file */
	const char *size;	      /* within path, if it is made: what stands for SIZE */
	uint64_t made_bytes;	      /* that of size, if it is one: the caller's to read */
	enum serve_access access;
};

/* The last word behind a comma is taken off if it is one of ours: what is before it is the path,
 * with all its commas. -EINVAL: there is no path; -ENOMEM. */
int serve_file_parse(const char *text, struct serve_file *ret) must_use;
/* all: what --read-only says. */
bool serve_file_read_only(const struct serve_file *f, bool all);
/* Makes a disk of made_bytes. On failure -errno, and in *ret_why what is wrong and what to do. */
int serve_file_make(const struct serve_file *f, uint32_t block_size, bool read_only,
		    struct store **ret, const char **ret_why) must_use;

#endif
