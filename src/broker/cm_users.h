/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much of the CM service a user may hold over all his clients, so that no one takes what others
 * need. Root, and the user whose broker it is, may hold most of it, every other a part, and all
 * others together leave something to these two.
 */
#ifndef WEFT_BROKER_CM_USERS_H
#define WEFT_BROKER_CM_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"

enum cm_quota {
	CM_QUOTA_IDS,
	CM_QUOTA_CHANNELS,
	CM_QUOTA_LISTENERS,
	CM_QUOTA_PORTS,
	CM_QUOTA_EVENTS,
	CM_QUOTA_RESOLVING,
	CM_QUOTAS
};

struct cm_users {
	struct list users;
	uint32_t owner;		      /* whose broker it is */
	uint32_t channels;	      /* that there can be */
	uint32_t ordinary[CM_QUOTAS]; /* held by all but the owner and root */
};

struct cm_user {
	struct list list;
	struct cm_users *of;
	uint32_t uid, clients;
	bool generous;
	uint32_t held[CM_QUOTAS];
	bool told[CM_QUOTAS]; /* the log, that he is at his limit */
};

void cm_users_init(struct cm_users *, uint32_t owner, uint32_t channels);
/* For one client of that user; -ENOMEM. */
int cm_user_get(struct cm_users *, uint32_t uid, struct cm_user **ret) must_use;
void cm_user_put(struct cm_user *);
/* -EMFILE: he has as many as he may, or this client of his, which holds by_client; the log says so.
 */
int cm_quota_take(struct cm_user *, enum cm_quota, uint32_t by_client) must_use;
/* Of what cannot be refused. */
void cm_quota_hold(struct cm_user *, enum cm_quota);
void cm_quota_give_back(struct cm_user *, enum cm_quota);
/* Is there room for one more? */
bool cm_quota_left(struct cm_user *, enum cm_quota, uint32_t by_client);

#endif
