/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sets, and what is in them; epoll.c tells the theory. All under sets_lock but where it says so. */
#ifndef WEFT_SOCKETS_EPOLL_PRIV_H
#define WEFT_SOCKETS_EPOLL_PRIV_H

#include <sys/epoll.h>

#include "sockets/sockets.h"

struct set {
	int fd;	    /* the program's, one of its numbers */
	int number; /* one of ours for the program's, by which it is polled, or -1 */
	int inner;  /* ours */
	int wake;   /* in inner: a sleeper is to look again */
	int rnic;   /* in the program's set: the RNIC's descriptor, or -1 */
	int attendants;
	int numbers, waits; /* it lives as long as there are any */
	atomic_int sleepers, polled;
	unsigned int generation; /* in the child of a fork the kernel's part is the parent's */
	struct list registrations, candidates;
	struct list nested;  /* sets that are in it, by in_set */
	struct list parents; /* and those that it is in, by in_sub */
	struct list fresh;   /* fresh_lock */
};

/* Which of a registration's descriptors fired stands in the low bits of what inner knows it by. */
enum source { FROM_KERNEL, FROM_CQ, SOURCES };

struct registration {
	struct list in_set, in_entry, candidate;
	struct list fresh; /* fresh_lock */
	struct set *set;
	struct entry *entry;
	int fd;		       /* the number that it was added by */
	struct stream *stream; /* that tells it */
	struct sock_watcher watcher;
	uint32_t events;
	epoll_data_t data;
	bool disabled; /* EPOLLONESHOT has had its event */
	int watched[SOURCES];
};

/* A set in a set. The kernel's one is a member of the kernel's other, by the address of this. */
struct nested {
	struct list in_set, in_sub;
	struct set *set, *sub;
	int fd; /* the number that it was added by */
	uint32_t events;
	epoll_data_t data;
	bool disabled, fired;
};

extern pthread_mutex_t sets_lock;

/* Without the lock, too. */
struct set *set_of(int fd);
/* The set of a number that is an epoll set; NULL with errno. */
struct set *set_make(int fd);
/* Does somebody sleep who would have to know? Without the lock, too. */
bool set_is_watched(struct set *);
void set_wake(struct set *);
/* Nobody waits any more. */
void set_put(struct set *);
/* So many sleep in a number that is no set of ours yet. */
atomic_int *set_outside(int fd);

struct nested *nested_by_address(struct set *, const void *);
/* It has had its one event. */
void nested_disable(struct nested *);

/* epoll.c: for a set that ends. */
void registration_remove(struct registration *);

#endif
