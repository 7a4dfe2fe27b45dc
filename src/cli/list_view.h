/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the broker lists, by process; and the words for it. */
#ifndef WEFT_CLI_LIST_VIEW_H
#define WEFT_CLI_LIST_VIEW_H

#include <netinet/in.h>
#include <stdbool.h>

#include "broker/list_ask.h"

#define VIEW_ADDRESS_MAX (INET6_ADDRSTRLEN + 40)

/* Of one process all clients together: each library in it may be one. */
struct process {
	uint32_t pid, uid; /* pid 0: the broker does not see it */
	uint64_t age_ns;
	uint8_t slots[32];
	const struct broker_list_id **ids;
	size_t id_count, listeners, connections;
};

struct view {
	struct broker_listing l;
	struct process *v;
	size_t count;
	const struct broker_list_id **ids; /* by process, listeners first */
};

/* After view->l came: the rest of it. -ENOMEM. */
int view_arrange(struct view *) must_use;
void view_free(struct view *);
/* Is it one, or about to be? */
bool view_is_connection(const struct broker_list_id *);
const char *view_state(const struct broker_list_id *);
/* "tcp", "udp": the port space. */
const char *view_service(const struct broker_list_id *);
/* NULL: none that is known. */
const struct broker_device *view_device(const struct broker_listing *, uint32_t ifindex);
/* Both return buf, of VIEW_ADDRESS_MAX bytes. An address, without its port. */
const char *view_address(char *buf, const struct broker_listing *, const struct broker_list_id *,
			 const struct gid *);
/* "192.0.2.1:4420", "[fd00::1]:7174/udp"; "-" where there is none. */
const char *view_place(char *buf, const struct broker_listing *, const struct broker_list_id *,
		       bool remote);
/* When that was, so long ago, for people or for programs. Returns buf. */
const char *view_since(char buf[40], uint64_t age_ns, bool utc);

#endif
