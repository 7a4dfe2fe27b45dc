// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/attend.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

/* What weft's libibverbs has for us; src/verbs/attend.h tells of it. */
static struct {
	void (*look)(void);
	int (*attend)(bool sleeps, bool *ret_come, uint64_t *ret_ticket);
	void (*attended)(uint64_t ticket, bool readable);
	void (*progress)(void);
	void (*cq_tell)(struct ibv_cq *, void (*tell)(void *arg), void *arg);
	bool (*cq_arm)(struct ibv_cq *);
} weft;

static bool usable;

static void find(void)
{
#define FIND(name)                                                                     \
	weft.name = (__typeof__(weft.name))dlvsym(RTLD_DEFAULT, "weft_private_" #name, \
						  "WEFT_PRIVATE_1")
	FIND(look);
	FIND(attend);
	FIND(attended);
	FIND(progress);
	FIND(cq_tell);
	FIND(cq_arm);
#undef FIND
	usable = weft.look && weft.attend && weft.attended && weft.progress && weft.cq_tell &&
		 weft.cq_arm;
}

bool attend_usable(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return usable;
}

void attend_look(void)
{
	if (attend_usable())
		weft.look();
}

int attend_begin(struct attendance *a, bool sleeps)
{
	*a = (struct attendance){.fd = -1};
	if (attend_usable()) {
		a->fd = weft.attend(sleeps, &a->come, &a->ticket);
		a->begun = a->fd != -ENODEV;
	}
	return a->fd;
}

void attend_end(const struct attendance *a, bool readable)
{
	if (a->begun)
		weft.attended(a->ticket, readable);
}

void attend_progress(void)
{
	weft.progress();
}

void attend_cq_tell(struct ibv_cq *cq, void (*tell)(void *arg), void *arg)
{
	weft.cq_tell(cq, tell, arg);
}

bool attend_cq_arm(struct ibv_cq *cq)
{
	return weft.cq_arm(cq);
}

bool attend_peer_died(const struct ibv_wc *wc)
{
	enum { PEER_DIED = 71 }; /* weft(7) */

	return attend_usable() && wc->vendor_err == PEER_DIED;
}

const void *attend_self(void)
{
	static _Thread_local char self;

	return &self;
}
