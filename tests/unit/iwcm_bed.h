/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A test bed for the connection manager of iWARP: its thread and its sockets are real, on loopback;
 * what it tells, and the streams that it would begin, are the test's.
 */
#ifndef WEFT_TESTS_IWCM_BED_H
#define WEFT_TESTS_IWCM_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>

#include "iwcm/iwcm.h"

#define LISTENER 7
#define CALLER	 8
#define ACCEPTER 9
#define TOLD_MAX 4096

struct told {
	uint32_t id;
	uint64_t nr;
	enum iwcm_said what;
	int status;
};

extern struct iwcm_bed {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct told told[TOLD_MAX];
	size_t n, taken;
	int refuse_tells;  /* so many times */
	int refuse_to;	   /* this identifier is told nothing; 0: none */
	int slow_begin_ms; /* of queue pair 1; and the stream has ended before it is over */
	int begin_error;
	int may_begin;		  /* what the answer to that is */
	int slow_ms;		  /* of queue pair 0: it begins, and only then is that over */
	int ended, ended_at_once; /* times that the manager has ended a stream */
	struct begun {
		int fd;
		uint8_t early[4096];
		size_t early_len;
		struct iw_agreed agreed;
		struct iwcm_link *link;
	} begun[2]; /* by queue pair number */
	struct iwcm_listener *listener;
	struct sockaddr_in at;
} iwb;

/* Of each test: there is a listener, on loopback and any port. */
int iwb_open(void **state);
int iwb_close(void **state);
/* In the place of that, or of none. */
void iwb_listen_at(in_addr_t, int backlog);
void iwb_listen(int backlog);
/* One of those that the thread looks at; returns what it was. */
int iwb_set(int *what, int to);
/* What is told next; nothing in that time: what 0. */
struct told iwb_next_within(unsigned int s);
struct told iwb_expect(uint32_t id, enum iwcm_said what, int status);
struct iw_params iwb_params(const char *private_data);
/* CALLER's. from: in network order; ask_first, brief: as of struct iwcm_call. */
struct iwcm_link *iwb_call_from(in_addr_t from, const struct sockaddr_in *at, const char *data,
				bool ask_first, bool brief);
struct iwcm_link *iwb_call(const struct sockaddr_in *at, const char *data);
/* From that port of the same address. */
struct iwcm_link *iwb_call_from_port(uint16_t port, const struct sockaddr_in *at, const char *data);
/* The listener's next request. */
struct iwcm_link *iwb_take(void);
/* Of one that has its stream. */
void iwb_end(struct iwcm_link *, unsigned int qpn);
unsigned int iwb_descriptors(void);

#endif
