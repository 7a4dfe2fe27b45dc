/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An NBD server's export as a store, by libnbd: nbd.c has the operations, nbd_connect.c how a
 * connection comes about.
 */
#ifndef WEFT_STORE_NBD_H
#define WEFT_STORE_NBD_H

#include <libnbd.h>
#include <pthread.h>

#include "store/internal.h"

/* A connection, and what its server says of the export. */
struct nbd_link {
	struct nbd_handle *h; /* NULL: there is none */
	uint64_t size;	      /* bytes */
	uint64_t max_len;     /* of one READ or WRITE */
	uint32_t optimal_io;
	bool read_only;
	bool flush, fua, trim, zero;
};

/*
 * Connects, for some seconds at most, or until *stop. On failure -errno, and in *ret_why a sentence
 * (static, or of this thread until the next call) that says what is wrong and what to do.
 */
int nbd_link_open(const char *uri, uint32_t block_size, const bool *stop, struct nbd_link *ret,
		  const char **ret_why) must_use;
/* What is under way is forgotten: nobody is called back. */
void nbd_link_close(struct nbd_link *l);
/* Makes a store of it; if that fails, it is closed. On failure as store_nbd_open(). */
int nbd_attach(const struct nbd_link *l, struct store_engine *e, const char *uri,
	       const struct store_file_options *o, struct store **ret,
	       const char **ret_why) must_use;

/* Servers say nothing of what is usual. */
static inline uint32_t nbd_block_size(const struct store_file_options *o)
{
	return o->block_size ? o->block_size : 512;
}

/* Connects again and again in a thread of its own, for names may take long to be resolved: it is
 * the store's and that thread's, who may stay longer. */
struct nbd_seeker {
	char *uri;
	uint32_t block_size;
	int event_fd; /* readable when there is a connection to be taken */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool runs; /* the thread is to be joined */
	bool stop;
	unsigned users;
	struct nbd_link found;
};

/* -ENOMEM, -EMFILE ... */
int nbd_seeker_create(const char *uri, uint32_t block_size, struct nbd_seeker **ret) must_use;
/* The store needs it no more. */
void nbd_seeker_leave(struct nbd_seeker *s);
/* A thread that cannot be started is a line in the log; who asks again later may have luck. */
void nbd_seeker_start(struct nbd_seeker *s);
/* True: *ret is a connection, and the caller's. */
bool nbd_seeker_take(struct nbd_seeker *s, struct nbd_link *ret) must_use;

#endif
