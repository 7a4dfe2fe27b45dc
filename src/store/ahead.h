/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is found of a store before it is opened: by a thread of its own, or by who opens it. */
#ifndef WEFT_STORE_AHEAD_H
#define WEFT_STORE_AHEAD_H

#include "store/nbd.h"
#include "store/store.h"

struct file_store;

/* One of them, or an error. */
struct ahead_found {
	struct nbd_link link;
	struct file_store *file;
	int error;
};

/*
 * What came of looking at it, which is the caller's, and if it is an error, in *ret_why what is to
 * be said of it, as long as there is a. False: nobody has looked.
 */
bool ahead_take(struct store_ahead *a, const char *path, const struct store_file_options *o,
		struct ahead_found *ret, const char **ret_why) must_use;

/* All of opening that may wait for the disk. */
int file_find(const char *path, const struct store_file_options *o, struct file_store **ret,
	      const char **ret_why) must_use;
/* Of one that was not opened. */
void file_forget(struct file_store *f);

#endif
