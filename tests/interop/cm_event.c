/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cm_event.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <poll.h>

#define WAIT_MS 20000

struct rdma_cm_event *next_event(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLOUT};
	struct rdma_cm_event *ev;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(p.revents, POLLIN); /* and never writable */
	assert_int_equal(rdma_get_cm_event(c, &ev), 0);
	if (ev->event != type) {
		print_error("%s (%d) instead of %s\n", rdma_event_str(ev->event), ev->status,
			    rdma_event_str(type));
		rdma_ack_cm_event(ev); /* or the end of its id waits for ever */
		fail();
	}
	return ev;
}

void expect_event(struct rdma_event_channel *c, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev = next_event(c, type);
	int got = ev->status;

	rdma_ack_cm_event(ev);
	assert_int_equal(got, status);
}
