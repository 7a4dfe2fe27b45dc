// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The table of identifiers, and who uses one beside its owner: events, and others of its queue
 * pair. And the channels that there are. */
#include "rdmacm/cma.h"
#include "verbs/private.h"

#define BUCKETS 1024

static pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list buckets[BUCKETS]; /* by handle */
static uint64_t next_cookie = 1;
static struct list channels = {&channels, &channels};
static uint64_t channel_numbers;

/* The lock is held over the fork, so that the child's copy of the table is whole. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void fork_over(void)
{
	pthread_mutex_unlock(&cma_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_over, fork_over);
}

static struct list *bucket(uint32_t handle)
{
	struct list *b = &buckets[handle % BUCKETS];

	if (!b->next)
		list_init(b);
	return b;
}

void cma_id_show(struct cma_id *id)
{
	pthread_mutex_lock(&cma_lock);
	list_push_tail(bucket(id->handle), &id->node);
	pthread_mutex_unlock(&cma_lock);
}

void cma_id_hide(struct cma_id *id)
{
	pthread_mutex_lock(&cma_lock);
	list_remove(&id->node);
	pthread_mutex_unlock(&cma_lock);
}

void cma_channel_show(struct cma_channel *c)
{
	pthread_mutex_lock(&cma_lock);
	c->number = ++channel_numbers;
	list_push_tail(&channels, &c->node);
	pthread_mutex_unlock(&cma_lock);
}

void cma_channel_hide(struct cma_channel *c)
{
	pthread_mutex_lock(&cma_lock);
	list_remove(&c->node);
	pthread_mutex_unlock(&cma_lock);
}

bool cma_channel_is_there(const struct rdma_event_channel *channel, uint64_t number)
{
	bool is = false;

	pthread_mutex_lock(&cma_lock);
	list_for_each(c, &channels, const struct cma_channel, node)
		is |= &c->api == channel && c->number == number;
	pthread_mutex_unlock(&cma_lock);
	return is;
}

uint64_t cma_cookie_new(void)
{
	uint64_t cookie;

	pthread_mutex_lock(&cma_lock);
	cookie = next_cookie++;
	pthread_mutex_unlock(&cma_lock);
	return cookie;
}

struct cma_id *cma_id_take_event(uint32_t handle, uint64_t cookie)
{
	struct cma_id *found = NULL;

	pthread_mutex_lock(&cma_lock);
	list_for_each(id, bucket(handle), struct cma_id, node) {
		if (id->handle == handle && (id->cookie == cookie || id->first_cookie == cookie)) {
			pthread_mutex_lock(&id->lock);
			id->events_taken++;
			pthread_mutex_unlock(&id->lock);
			found = id;
			break;
		}
	}
	pthread_mutex_unlock(&cma_lock);
	return found;
}

void cma_id_ack_event(struct cma_id *id)
{
	pthread_mutex_lock(&id->lock);
	id->events_acked++;
	pthread_cond_broadcast(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

void cma_id_wait_for_acks(struct cma_id *id)
{
	pthread_mutex_lock(&id->lock);
	while (id->events_acked != id->events_taken)
		pthread_cond_wait(&id->cond, &id->lock);
	pthread_mutex_unlock(&id->lock);
}

/* ---- beside other threads -------------------------------------------------------------------- */

struct ibv_qp *cma_qp_get(struct cma_id *id)
{
	struct ibv_qp *qp;

	pthread_mutex_lock(&id->lock);
	qp = id->api.qp;
	if (qp)
		id->qp_users++;
	pthread_mutex_unlock(&id->lock);
	return qp;
}

void cma_qp_put(struct cma_id *id, struct ibv_qp *qp)
{
	if (!qp)
		return;
	pthread_mutex_lock(&id->lock);
	if (--id->qp_users == 0)
		pthread_cond_broadcast(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

int cma_simple_call(enum broker_cm_msg_type type, uint32_t handle)
{
	struct broker_cm_id req = {.msg.type = type, .id = handle};
	struct broker_msg resp;

	return weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
}
