// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/time.h"
#include "verbs/private.h"

/* How old a table of devices may be that is good enough for one more connection. */
#define LATELY_NS (100 * NSEC_PER_MSEC)

static struct {
	pthread_mutex_t lock;
	struct broker_client *broker;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The table that was asked for last. Whoever changes a device has the broker tell us. */
static struct {
	struct broker_devices *table; /* process.lock; NULL: none */
	uint64_t until;
	unsigned int changes; /* before it was asked for */
} lately;

static atomic_uint device_changes;
static atomic_bool told; /* of changes */

/* A child of fork() begins anew: its parent's connection is not its own (broker/client.c sees to
 * its half). */
static void forked(void)
{
	pthread_mutex_init(&process.lock, NULL);
	process.broker = NULL;
	lately.until = 0;
	told = false;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

int process_broker(struct broker_client **ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char err[256];
	int rc = 0;

	pthread_mutex_lock(&process.lock);
	pthread_once(&once, watch_forks);
	if (!process.broker) {
		rc = broker_client_open(&process.broker, err, sizeof(err));
		if (rc) {
			process.broker = NULL;
			log_err("verbs", "%s", err);
		}
	}
	*ret = process.broker;
	pthread_mutex_unlock(&process.lock);
	return rc;
}

/* ---- devices --------------------------------------------------------------------------------- */

void process_device_told(void)
{
	atomic_store(&told, true);
}

void process_device_changed(void)
{
	atomic_fetch_add(&device_changes, 1);
}

int process_devices(struct broker_devices **ret)
{
	struct broker_client *broker;
	struct broker_devices *d;
	int rc = process_broker(&broker);

	if (rc)
		return rc;
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	rc = broker_client_devices(broker, d);
	if (rc) {
		free(d);
		return rc;
	}
	*ret = d;
	return 0;
}

static struct broker_devices *recall_locked(void)
{
	struct broker_devices *d;

	if (!process.broker || !atomic_load(&told) || !lately.table ||
	    lately.changes != atomic_load(&device_changes) || time_now_ns() > lately.until)
		return NULL;
	d = malloc(sizeof(*d));
	if (d)
		*d = *lately.table;
	return d;
}

int process_devices_lately(struct broker_devices **ret)
{
	const unsigned int changes = atomic_load(&device_changes);
	int rc;

	pthread_mutex_lock(&process.lock);
	*ret = recall_locked();
	pthread_mutex_unlock(&process.lock);
	if (*ret)
		return 0;
	rc = process_devices(ret);
	if (rc)
		return rc;
	pthread_mutex_lock(&process.lock);
	if (!lately.table)
		lately.table = malloc(sizeof(*lately.table));
	if (lately.table) {
		*lately.table = **ret;
		lately.until = time_now_ns() + LATELY_NS;
		lately.changes = changes;
	}
	pthread_mutex_unlock(&process.lock);
	return 0;
}

/* ---- for librdmacm ----------------------------------------------------------------------------
 */

int weft_private_call(const void *req, size_t req_len, void *resp, size_t resp_len)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_call(broker, req, req_len, resp, resp_len, NULL);
}

int weft_private_cm_channel(uint32_t *ret_channel, int *ret_fd)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_cm_channel(broker, ret_channel, ret_fd);
}

int weft_private_recover(uint32_t *ret_generation)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_recover(broker, ret_generation);
}

int weft_private_devices(bool lately_will_do, struct broker_devices **ret)
{
	return lately_will_do ? process_devices_lately(ret) : process_devices(ret);
}
