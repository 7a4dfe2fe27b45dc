/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Groups: what one thread of a target owns. The queues of a group, the requests on them and their
 * timers are touched by its thread alone. The admin plane (subsystems, ports, controllers, admin
 * queues, I/O that is held) belongs to the thread of the first group, which is in struct target.
 *
 * A queue is its group's from its beginning, but for one whose ID comes with Connect: that is the
 * first group's until then, and is handed to its own.
 *
 * The two speak by messages. A message is part of what it is about, is in one place at a time, and
 * whoever has it may write to what goes along with it. Those from one thread to another arrive in
 * the order in which they were sent. Within a group they are delivered at once, where they are
 * sent: a target of one group never has one under way.
 *
 * What is read by one thread while another writes it is a single word: counts, and what is _Atomic.
 */
#ifndef WEFT_NVMF_TARGET_GROUP_H
#define WEFT_NVMF_TARGET_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"

struct target;
struct target_group;
struct target_figures;

struct target_msg {
	struct target_msg *next;
	void (*deliver)(struct target_msg *m);
};

struct target_counters { /* one line each in nvmf/target/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "nvmf/target/counters.def"
#undef X
};

struct target_group {
	struct list link; /* of target.groups */
	unsigned index;	  /* in the order of its beginning; what stores are shared by */
	struct target *target;
	struct list queues;		    /* until they are over */
	struct timer_heap connect_timers;   /* of queues */
	struct list later;		    /* commands that go on in the next turn */
	uint64_t spent;			    /* in this one; bytes */
	uint64_t now_ns;		    /* of the call that is under way */
	_Atomic(struct target_msg *) inbox; /* the latest first */
	struct target_counters *counters, own_counters;
	struct target_figures *figures; /* of its own, or NULL */
	/* A message has come to an empty inbox; called by the thread that sent it. NULL: the
	 * group's thread looks often enough. */
	void (*wake)(void *ctx);
	void *ctx;
};

/* The second thread's, and further ones, before the first namespace is added: while no other thread
 * uses the target. counters: where
 * others can look, and of this group alone; NULL: its own. */
void target_group_init(struct target_group *g, struct target *t, struct target_counters *counters,
		       void (*wake)(void *ctx), void *ctx, uint64_t now_ns);
/* None of its queues is left; messages that others sent last may be. */
bool target_group_idle(const struct target_group *g);
/* Must be idle, as must be the target: while no other thread uses that. */
void target_group_fini(struct target_group *g);
uint64_t target_group_next_deadline(const struct target_group *g);

/* A turn begins: what transports and stores bring without a time of their own is of this one. */
static inline void target_group_turn(struct target_group *g, uint64_t now_ns)
{
	g->now_ns = now_ns;
}

/* Delivers what came to the inbox, and does what is due; true if there was anything. To be called
 * in every turn. */
bool target_group_process(struct target_group *g, uint64_t now_ns);
/* Delivers m in the thread of `to`: at once if that is `from`, whose thread this is. */
void group_tell(struct target_group *from, struct target_group *to, struct target_msg *m,
		void (*deliver)(struct target_msg *m));

#endif
