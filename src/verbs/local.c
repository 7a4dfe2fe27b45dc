// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/local.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "base/uncancelled.h"
#include "port/local/local_port.h"
#include "verbs/process.h"

/* The process's, for good; NULL: none. What follows is guarded by the shard's lock. */
static struct port *port;
static bool asked[256];	       /* the broker, for this slot */
static uint32_t asked_at[256]; /* when the news was this */
static bool asked_all;	       /* and for all */
static uint32_t asked_all_at;

bool local_begin(struct port **io, struct broker_client *broker, uint8_t slot)
{
	struct port *before = *io;
	int rc = local_port_before(&before, slot);

	port = NULL;
	memset(asked, 0, sizeof(asked));
	asked_all = false;
	if (!rc) {
		*io = port = before;
		rc = broker_client_offer_inbox(broker, slot, local_port_inbox(port));
	}
	if (rc)
		log_info("verbs", "processes of this host are reached by UDP: %s", errno_text(-rc));
	return rc == 0;
}

/* Is there nothing that the broker would say anew? */
static bool is_asked(struct shard *s, uint8_t slot, uint32_t *ret_news)
{
	bool is;

	shard_lock(s);
	is = shard_is_dead(s);
	if (!is) {
		*ret_news = local_port_news(port);
		is = asked[slot] && asked_at[slot] == *ret_news;
	}
	shard_unlock(s);
	return is;
}

static void meet(struct shard *s, struct broker_client *broker, uint8_t slot)
{
	uint32_t news;
	int fd, rc, before;

	if (is_asked(s, slot, &news))
		return;
	before = uncancelled_begin(); /* descriptors are closed with the lock held */
	rc = broker_client_find_inbox(broker, slot, &fd);
	shard_lock(s);
	if (shard_is_dead(s)) {
		if (!rc)
			close(fd);
	} else if (!rc || rc == -ENOENT) { /* else nobody has said anything of it */
		if (rc)
			local_port_part(port, slot);
		else if (local_port_meet(port, slot, fd))
			close(fd);
		asked[slot] = true;
		asked_at[slot] = news;
	}
	shard_unlock(s);
	uncancelled_end(before);
}

static bool is_within(const struct flow *f)
{
	return port && !f->rocev1 && gid_equal(&f->sgid, &f->dgid);
}

void local_meet(struct shard *s, const struct flow *f, uint32_t qpn)
{
	const uint8_t slot = (uint8_t)(qpn >> 16);
	struct broker_client *broker;

	if (slot && is_within(f) && process_broker(&broker) == 0)
		meet(s, broker, slot);
}

void local_meet_all(struct shard *s, const struct flow *f)
{
	struct broker_inboxes r;
	struct broker_client *broker;
	uint32_t news = 0;
	bool is;

	if (!is_within(f))
		return;
	shard_lock(s);
	is = shard_is_dead(s);
	if (!is) {
		news = local_port_news(port);
		is = asked_all && asked_all_at == news;
	}
	shard_unlock(s);
	if (is || process_broker(&broker) || broker_client_inboxes(broker, &r))
		return;
	for (unsigned i = 1; i < sizeof(r.slots) * 8; i++)
		if (r.slots[i / 64] >> i % 64 & 1)
			meet(s, broker, (uint8_t)i);
	shard_lock(s);
	asked_all = true;
	asked_all_at = news;
	shard_unlock(s);
}
