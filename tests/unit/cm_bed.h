/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One CM, packet by packet: the test is the other side. */
#ifndef WEFT_TESTS_UNIT_CM_BED_H
#define WEFT_TESTS_UNIT_CM_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cm/cm_priv.h"

#define SERVICE	  0x0000000001061234ull
#define MSEC	  NSEC_PER_MSEC
#define SEC	  NSEC_PER_SEC
#define RESPONSE  (4096ull << 20)
#define PEER_ID	  0xabcd0001u
#define PEER_QPN  0x11u
#define OUR_QPN	  0x22u
#define PEER_GUID 0x505400fffe4c0002ull

extern const struct flow to_us;

struct fixture {
	struct cm *cm;
	struct cm_id *listener, *id;
	struct cm_event last; /* pointers in it are stale */
	int events;
	uint16_t rej_reason;
	uint64_t now;
	uint32_t random;
	bool destroy_in_upcall;
	long blocks; /* allocated */
};

/* cmocka's: *state is a struct fixture. The teardown demands that nothing is left allocated. */
int setup(void **state);
int teardown(void **state);

/* ---- playing the other side --------------------------------------------------------------- */

void give(struct fixture *, const struct cm_msg *); /* it comes from the peer */
struct cm_msg msg(enum cm_attr_id);
struct cm_msg req_msg(void);
/* What the CM has to send next, which must be that. */
struct cm_msg get_from(struct fixture *, enum cm_attr_id);
void get_nothing(struct fixture *);
void pass(struct fixture *, uint64_t ns); /* time */
struct cm_rep our_rep(void);

extern uint32_t replied_id;  /* our communication ID, as the peer knows it */
extern uint64_t transaction; /* of what the peer says */

/* The passive side: their REQ has come; our REP has gone; their RTU has come. */
struct fixture *requested(void **state);
struct fixture *replied(void **state);
struct fixture *accepted(void **state);
/* The active side: our REQ has gone; their REP has come and our RTU gone. */
struct fixture *connecting(void **state);
struct fixture *connected(void **state);

void give_rtu(struct fixture *);
void give_rep(struct fixture *, uint32_t peer_id);
void give_rej(struct fixture *, enum cm_msg_answered, uint16_t reason);
void give_dreq(struct fixture *, uint32_t qpn);
void give_drep(struct fixture *);

#endif
