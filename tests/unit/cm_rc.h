/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections of RC queue pairs in the world of cm_world.h. */
#ifndef WEFT_TESTS_UNIT_CM_RC_H
#define WEFT_TESTS_UNIT_CM_RC_H

#include "cm_world.h"

enum { PORT = 4420 };

/* Both return the request's error. */
int connect_to(struct client *, uint32_t id, const struct gid *src, const struct gid *dst,
	       uint16_t port);
int accept_it(struct client *, uint32_t id);
/* For a pair that began at PORT: as far as the listener's event; as far as it goes. */
void request(struct pair *);
void establish(struct pair *);

#endif
