/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <string.h>
#include <sys/stat.h>

#include "base/time.h"
#include "broker/broker_priv.h"

_Static_assert(sizeof(((struct broker_list_client *)0)->slots) == LEASE_SLOTS / 8,
	       "a client's slots have room");

/* Never one who is not served, nor the one who asks: it uses nothing. */
static bool may_know_of(const struct session *asks, const struct session *c)
{
	return c != asks && c->greeted && (asks->peer.uid == 0 || asks->peer.uid == c->peer.uid);
}

static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* To walk over all sessions costs no more than to let one in (refusal()). */
void session_list_clients(const struct session *asks, uint64_t from,
			  struct broker_list_clients *ret)
{
	struct broker *b = asks->broker;
	uint64_t now = time_now_ns();

	ret->broker_age_ns = now - b->since;
	ret->pid_namespace = own_pid_namespace();
	list_for_each(c, &b->clients, struct session, link) {
		struct broker_list_client *to = &ret->v[ret->count];

		if (cm_client_nr(c->cm) < from || !may_know_of(asks, c))
			continue;
		if (ret->count == BROKER_LIST_MAX) {
			ret->next = cm_client_nr(c->cm);
			return;
		}
		*to = (struct broker_list_client){
			.nr = cm_client_nr(c->cm),
			.age_ns = now - c->since,
			.pid = (uint32_t)c->peer.pid,
			.uid = c->peer.uid,
		};
		memcpy(to->slots, c->slots, sizeof(to->slots));
		ret->count++;
	}
}

void session_list_ids(const struct session *asks, uint64_t from, struct broker_list_ids *ret)
{
	ret->next = from;
	ret->count = cm_service_list(asks->broker->cm, asks->peer.uid, &ret->next, ret->v,
				     BROKER_LIST_MAX);
}
