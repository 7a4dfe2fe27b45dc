/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/cm_users.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

static const struct limit {
	const char *what;
	uint32_t client, user, most; /* user's and most channels: see limit_of() */
} limits[CM_QUOTAS] = {
	[CM_QUOTA_IDS] = {"connection identifiers", 16384, 16384, 49152},
	[CM_QUOTA_CHANNELS] = {"event channels", 4096, 0, 0},
	[CM_QUOTA_LISTENERS] = {"listeners", UINT32_MAX, 4096, 16384},
	[CM_QUOTA_PORTS] = {"ports", UINT32_MAX, 12288, 24576},
	[CM_QUOTA_RESOLVING] = {"addresses to resolve at a time", UINT32_MAX, 256, 8192},
	[CM_QUOTA_EVENTS] = {"unread events", UINT32_MAX, 65536, 262144},
};

void cm_users_init(struct cm_users *users, uint32_t owner, uint32_t channels)
{
	*users = (struct cm_users){.owner = owner, .channels = channels};
	list_init(&users->users);
}

int cm_user_get(struct cm_users *users, uint32_t uid, struct cm_user **ret)
{
	struct cm_user *u;

	list_for_each(known, &users->users, struct cm_user, list)
		if (known->uid == uid) {
			known->clients++;
			*ret = known;
			return 0;
		}
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	*u = (struct cm_user){
		.of = users, .uid = uid, .clients = 1, .generous = uid == 0 || uid == users->owner};
	list_push_tail(&users->users, &u->list);
	*ret = u;
	return 0;
}

void cm_user_put(struct cm_user *u)
{
	if (--u->clients)
		return;
	for (int i = 0; i < CM_QUOTAS; i++)
		assert(u->held[i] == 0);
	list_remove(&u->list);
	free(u);
}

static struct limit limit_of(const struct cm_users *users, enum cm_quota what)
{
	struct limit l = limits[what];

	if (what == CM_QUOTA_CHANNELS) {
		l.user = users->channels / 4;
		l.most = l.user * 3;
	}
	return l;
}

/* Once, until he has come down a good deal. */
static void tell(struct cm_user *u, enum cm_quota what, const char *who_has, uint32_t limit)
{
	if (!u->told[what])
		log_warn("cm", "user %u gets no more %s: %s %u", u->uid, limits[what].what, who_has,
			 limit);
	u->told[what] = true;
}

bool cm_quota_left(struct cm_user *u, enum cm_quota what, uint32_t by_client)
{
	struct limit l = limit_of(u->of, what);
	uint32_t own = u->generous ? l.most : l.user;

	if (u->held[what] >= own)
		tell(u, what, "he has", own);
	else if (!u->generous && u->of->ordinary[what] >= l.most)
		tell(u, what, "all users but root have", l.most);
	else if (by_client >= l.client)
		tell(u, what, "a program of his has", l.client);
	else
		return true;
	return false;
}

void cm_quota_hold(struct cm_user *u, enum cm_quota what)
{
	u->held[what]++;
	if (!u->generous)
		u->of->ordinary[what]++;
}

int cm_quota_take(struct cm_user *u, enum cm_quota what, uint32_t by_client)
{
	if (!cm_quota_left(u, what, by_client))
		/* Of channels there are so few only where the broker may have few descriptors. */
		return what == CM_QUOTA_CHANNELS && u->of->channels / 4 < limits[what].client
			       ? -ENFILE
			       : -EMFILE;
	cm_quota_hold(u, what);
	return 0;
}

void cm_quota_give_back(struct cm_user *u, enum cm_quota what)
{
	assert(u->held[what] > 0);
	u->held[what]--;
	if (!u->generous)
		u->of->ordinary[what]--;
	if (u->held[what] < limit_of(u->of, what).user / 2)
		u->told[what] = false;
}
