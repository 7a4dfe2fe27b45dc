/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When one who polls in vain lets other programs have its processor.
 *
 * A program that polls believes to have a processor to itself. Where the one that it waits for has
 * to run on the same, that runs only when the waiting one's time slice is used up, milliseconds
 * later. So who has polled in vain lets others go first now and then; when nobody else waits to
 * run, that costs little more than the poll itself, and the next time is put off for a few
 * microseconds: what is waited for may come meanwhile, and is not to find us in the kernel.
 *
 * Where others do, who have nothing to do with it, each time costs it their slices, and it is left
 * with a fraction of its share. That it was them, a yield shows by how long it takes: a peer that
 * has served what was asked yields in its turn. After such a one the next is put off for a moment.
 * What comes within it, while nobody else ran here, was brought by somebody who runs elsewhere, and
 * for a while nothing is to be had by yielding; if nothing comes, others go first as before.
 *
 * Time is handed in.
 */
#ifndef WEFT_VERBS_YIELDING_H
#define WEFT_VERBS_YIELDING_H

#include <stdbool.h>
#include <stdint.h>

/* Begins zeroed. */
struct yielding {
	unsigned int vain;	/* polls in succession */
	bool long_one;		/* the last yield was */
	uint64_t looks_since;	/* the next one is put off; 0: it is not */
	unsigned long switches; /* so many by then */
	uint64_t keeps_until;	/* the processor */
	uint64_t alone_until;	/* nobody else wanted it just now */
};

enum { YIELDING_EVERY = 16 /* polls in vain */ };

/* How often the thread that calls has given its processor to another, willingly or not. */
typedef unsigned long yielding_switches(void);

/* It has polled in vain so often that it may be time. */
static inline bool yielding_asks(const struct yielding *y)
{
	return y->vain >= YIELDING_EVERY;
}

/* Asked so: is it? */
bool yielding_due(struct yielding *, uint64_t now_ns, yielding_switches *);
/* It has yielded, from then to then. */
void yielding_done(struct yielding *, uint64_t from_ns, uint64_t to_ns);
/* It has found something while the next yield was put off. */
void yielding_found(struct yielding *, uint64_t now_ns, yielding_switches *);

#endif
