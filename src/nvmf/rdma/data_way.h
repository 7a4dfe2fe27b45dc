/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which way the data of short writes go: in the command's capsule, or fetched by the target.
 *
 * In the capsule they are there at once, and a write that is alone wants nothing else. Of many
 * under way it depends on what lies beneath: a long and a short packet by turns, which a capsule
 * with data is, cost some RNICs more than those of a kind one after the other, which fetched data
 * are; on others, and where processors are scarce, a round trip more costs more. Verbs do not say
 * which. So both are tried in turn, a few spans of writes each, and the better one is gone on with
 * until the next trial, which each that changes nothing puts off for twice as long. How long a
 * span takes says it all, for as many are under way with either. The middle one of three counts:
 * who was kept from its processor meanwhile lost one of them.
 *
 * Time is handed in.
 */
#ifndef WEFT_NVMF_RDMA_DATA_WAY_H
#define WEFT_NVMF_RDMA_DATA_WAY_H

#include <stdbool.h>
#include <stdint.h>

enum {
	DATA_WAY_DEEP = 8,   /* so many under way are many */
	DATA_WAY_SPAN = 128, /* writes at least */
	DATA_WAY_SPANS = 3,  /* of each way in a trial; odd */
};

/* Begins zeroed: in the capsule. */
struct data_way {
	bool fetched;	   /* the better one, as far as is known */
	uint64_t next_ns;  /* no trial before */
	uint64_t pause_ns; /* between the last one and the next */
	/* The trial under way: */
	bool trial, other; /* there is one; it is the other's turn */
	unsigned int skip; /* writes under way that went as the span before */
	unsigned int left; /* writes of the span */
	unsigned int length, span;
	uint64_t begun_ns;
	uint64_t took_ns[2][DATA_WAY_SPANS]; /* [other] */
};

/* A write whose data would fit is about to be sent, with so many commands under way. Are its data
 * to be fetched? */
bool data_way_fetches(struct data_way *, unsigned int under_way, uint64_t now_ns);

#endif
