/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cm_rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

int connect_to(struct client *c, uint32_t id, const struct gid *src, const struct gid *dst,
	       uint16_t port)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_CONNECT,
		.id = id,
		.param = req_param(src, dst, port),
	};

	/* Each its own queue pair, or they would be stale. */
	r.param.qpn += id >> 16;
	r.param.flow_control = 1;
	r.param.tos = 0x20;
	r.param.private_len = 5;
	memcpy(r.param.private_data, "hello", 5);
	return ask(c, &r, sizeof(r));
}

int accept_it(struct client *c, uint32_t id)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = id,
		.user = 0x33,
		.param = {.qpn = 0x020022 + (id >> 16),
			  .starting_psn = 0x654321,
			  .responder_resources = 5,
			  .initiator_depth = 2,
			  .rnr_retry_count = 4,
			  .private_len = 3,
			  .private_data = "hi!"},
	};

	return ask(c, &r, sizeof(r));
}

void request(struct pair *p)
{
	struct host *a = p->user.host, *b = p->server.host;

	assert_int_equal(connect_to(&p->user, p->active, &a->v4, &b->v4, PORT), 0);
	p->passive = event(&p->server, BROKER_CM_EV_CONNECT_REQUEST).id;
}

void establish(struct pair *p)
{
	request(p);
	assert_int_equal(accept_it(&p->server, p->passive), 0);
	event(&p->user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(on_id(&p->user, BROKER_CM_ESTABLISH, p->active), 0);
	event(&p->server, BROKER_CM_EV_ESTABLISHED);
}
