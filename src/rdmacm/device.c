// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The devices as librdmacm has them: opened once for the life of the process, so that every
 * identifier on a device, and rdma_get_devices(), show the same context.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/iw.h"
#include "verbs/private.h"
#include "wire/bth.h"

static struct {
	pthread_mutex_t lock;
	struct cma_device *first;
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* In a child the contexts that its parent opened are of no use: it opens its own. */
static void forked(void)
{
	pthread_mutex_init(&devices.lock, NULL);
	devices.first = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* With the lock held: the device of a verbs device, opened if need be; NULL with errno set. */
static struct cma_device *device_get(struct ibv_device *device)
{
	struct ibv_device_attr attr;
	struct cma_device *d;

	for (d = devices.first; d; d = d->next)
		if (d->verbs->device == device)
			return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->verbs = ibv_open_device(device);
	if (!d->verbs)
		goto free_device;
	errno = ibv_query_device(d->verbs, &attr);
	if (errno)
		goto close_device;
	d->max_initiator_depth = (uint8_t)min_of(attr.max_qp_init_rd_atom, 255);
	d->max_responder_resources = (uint8_t)min_of(attr.max_qp_rd_atom, 255);
	d->next = devices.first;
	devices.first = d;
	return d;

close_device:
	ibv_close_device(d->verbs);
free_device:
	free(d);
	return NULL;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context **ret = NULL;
	int n = 0;

	if (num_devices)
		*num_devices = 0;
	if (!list)
		return NULL;
	while (list[n])
		n++;
	ret = calloc((size_t)n + 1, sizeof(*ret));
	if (!ret)
		goto out;
	n = 0;
	pthread_mutex_lock(&devices.lock);
	for (int i = 0; list[i]; i++) {
		struct cma_device *d = device_get(list[i]);

		if (d)
			ret[n++] = d->verbs;
	}
	pthread_mutex_unlock(&devices.lock);
	if (num_devices)
		*num_devices = n;
out:
	ibv_free_device_list(list);
	return ret;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

/* One that has been opened, with its protection domain. */
static struct cma_device *opened_device(const struct broker_device *b, enum face_transport t)
{
	struct cma_device *d;

	pthread_mutex_lock(&devices.lock);
	for (d = devices.first; d; d = d->next)
		if (d->pd && weft_private_device_is(d->verbs->device, b, t))
			break;
	pthread_mutex_unlock(&devices.lock);
	return d;
}

/* With a default protection domain. */
static int open_device(const struct broker_device *b, enum face_transport t,
		       struct cma_device **ret)
{
	struct ibv_device **list;
	struct cma_device *d = opened_device(b, t);
	int rc = -ENODEV;

	if (d) {
		*ret = d;
		return 0;
	}
	list = ibv_get_device_list(NULL);
	if (!list)
		return -errno;
	pthread_mutex_lock(&devices.lock);
	for (int i = 0; list[i]; i++) {
		if (!weft_private_device_is(list[i], b, t))
			continue;
		d = device_get(list[i]);
		rc = d ? 0 : -errno;
		break;
	}
	if (!rc && !d->pd) {
		d->pd = ibv_alloc_pd(d->verbs);
		if (!d->pd)
			rc = -errno;
	}
	pthread_mutex_unlock(&devices.lock);
	ibv_free_device_list(list);
	*ret = d;
	return rc;
}

/* Which device and which entry of its GID table has the address. */
static const struct broker_device *find_gid(const struct broker_devices *table,
					    const struct gid *gid, uint32_t scope, int *ret_index)
{
	for (uint32_t i = 0; i < table->count && i < BROKER_MAX_DEVICES; i++) {
		const struct broker_device *b = &table->dev[i];

		if (scope && b->ifindex != scope)
			continue;
		for (int g = 0; g < BROKER_MAX_GIDS; g++) {
			if (b->gids[g].type && gid_equal(&b->gids[g].gid, gid)) {
				*ret_index = g;
				return b;
			}
		}
	}
	return NULL;
}

/* The kind of its device: the first that this process wants of those that it can be on. */
static int choose_transport(struct cma_id *id)
{
	enum face_transport t[TRANSPORTS];
	size_t n;

	if (id->transport_fixed)
		return 0;
	n = weft_private_transports(t);
	for (size_t i = 0; i < n; i++) {
		if (t[i] == TRANSPORT_IWARP && !cma_may_be_iw(id))
			continue;
		id->transport = t[i];
		return 0;
	}
	return -ENODEV;
}

static int find_device(struct cma_id *id, bool lately_will_do)
{
	struct broker_devices *table;
	const struct broker_device *b;
	int rc = weft_private_devices(lately_will_do, &table);

	if (rc)
		return rc;
	b = find_gid(table, &id->src, id->scope, &id->sgid_index);
	rc = b ? open_device(b, id->transport, &id->dev) : -ENODEV;
	if (!rc)
		id->path_mtu = path_mtu_of(b->mtu);
	free(table);
	return rc;
}

int cma_bind_device(struct cma_id *id)
{
	int rc;

	/* IPoIB's interfaces are InfiniBand's, and here is none: so answers Linux with RoCE. */
	if (id->api.ps == RDMA_PS_IPOIB)
		return -EINVAL;
	rc = choose_transport(id);
	if (rc)
		return rc;
	rc = find_device(id, true);
	if (rc)
		rc = find_device(id, false);
	if (rc)
		return rc;
	id->api.verbs = id->dev->verbs;
	id->api.pd = id->dev->pd;
	id->api.port_num = 1;
	id->api.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
	memcpy(id->api.route.addr.addr.ibaddr.sgid.raw, id->src.raw, sizeof(id->src.raw));
	return 0;
}

int cma_bind_request(struct cma_id *id, const struct cma_id *listener,
		     enum face_transport transport)
{
	int rc;

	id->transport = transport;
	id->transport_fixed = true;
	rc = cma_bind_device(id);
	if (!rc && listener->sync && rdma_migrate_id(&id->api, NULL))
		rc = -errno;
	if (rc)
		rdma_destroy_id(&id->api);
	return rc;
}

int cma_default_xrcd(struct cma_id *id, struct ibv_xrcd **ret)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct cma_device *d = id->dev;
	int rc = 0;

	pthread_mutex_lock(&devices.lock);
	if (!d->xrcd) {
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
		rc = d->xrcd ? 0 : -errno;
	}
	*ret = d->xrcd;
	pthread_mutex_unlock(&devices.lock);
	return rc;
}

/* The one path of RoCE: the GIDs, and what the interface can do. iWARP has none. */
int cma_fill_path(struct cma_id *id)
{
	enum { EXACTLY = 2, RATE_UNKNOWN = 0, LIFETIME = 16 };
	struct ibv_sa_path_rec *path;

	if (cma_is_iw(id))
		return 0;
	path = calloc(1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	memcpy(path->dgid.raw, id->dst.raw, sizeof(id->dst.raw));
	memcpy(path->sgid.raw, id->src.raw, sizeof(id->src.raw));
	path->hop_limit = 64;
	path->traffic_class = id->tos;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htobe16(0xffff);
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = id->path_mtu;
	path->rate = RATE_UNKNOWN;
	path->packet_life_time = LIFETIME;
	free(id->api.route.path_rec);
	id->api.route.path_rec = path;
	id->api.route.num_paths = 1;
	return 0;
}
