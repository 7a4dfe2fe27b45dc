/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether one that attends looks for a moment before it sleeps, as functions of the time.
 *
 * To be woken takes tens of microseconds on a processor that sleeps. Where peers answer sooner, who
 * looks for as long as that gains all of it, and so does the peer, which need not wake anybody.
 * Where they do not the look is lost, and others would have had the processor.
 *
 * So first it sleeps: when sleep after sleep was ended soon, by a few packets each, it looks. That
 * goes on while two looks of three find something. When they do not, twice as many sleeps as before
 * must have been short until it tries again, so that what is lost is little beside what the sleeps
 * cost; as few as at first once looks have proved good.
 */
#ifndef WEFT_ENGINE_MOMENT_H
#define WEFT_ENGINE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct moment {
	uint64_t asleep;       /* since when; 0: it is not */
	unsigned short_sleeps; /* more or less in succession */
	unsigned enough;       /* so many are wanted */
	int credit;	       /* of looks: those in vain use it up */
	bool finds;	       /* a look has ended early: by a packet, as will be seen */
};

void moment_init(struct moment *);
/* It is going to sleep: is it to look first? */
bool moment_pays(const struct moment *) must_use;
/* It has, in vain; or something was there, be it a packet or what only wakes. */
void moment_looked_in_vain(struct moment *);
void moment_finds(struct moment *);
/* It sleeps. */
void moment_sleeps(struct moment *, uint64_t now);
/* It is awake, if it slept at all, and has received so many packets. */
void moment_awake(struct moment *, uint64_t packets, uint64_t now);

#endif
