/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The objects behind the pointers that applications hold: each begins with, or contains, the
 * structure of verbs.h and adds the core's object. There is no transport logic here.
 *
 * Every object of a context lives on the process's shard; "under the shard's lock" below means
 * that shard's. Objects hold their context: a context that is closed while objects of it are left
 * is freed with the last of them.
 */
#ifndef WEFT_VERBS_FACE_H
#define WEFT_VERBS_FACE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/log.h"
#include "broker/proto.h"
#include "engine/shard.h"
#include "rnic/rnic.h"
#include "verbs/device_event.h"
#include "verbs/event_pipe.h"
#include "verbs/transport.h"

/* The inline wrappers of verbs.h stand before the symbols we define. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define FACE_PORT   1		       /* a device has one port */
#define FACE_MAX_DM ((size_t)16 << 20) /* device memory of a process */

/* Lives as long as the process. An interface that is gone and comes back is another device. */
struct face_device {
	struct ibv_device ibv;
	struct face_device *next;
	_Atomic(uint64_t) guid_be; /* anew with each list of devices */
	uint32_t ifindex;
	enum face_transport transport;
};

struct face_context {
	struct shard *shard;
	uint64_t file;	   /* which its command descriptor stands for: shared.h */
	struct rnic *rnic; /* of the shard, under its lock */
	struct event_pipe async;
	struct device_events device;
	atomic_uint refs; /* the application's, and one for each object */
	struct verbs_context vctx;
};

struct parent;

struct face_pd {
	struct ibv_pd ibv;
	struct rnic_pd *core;
	struct pd_object *object;
	struct parent *parent; /* it is a parent domain, and has the core and object of another */
	atomic_uint users;     /* parent domains of it, or queues made by it as a parent domain */
};

struct face_mr {
	struct ibv_mr ibv;
	struct rnic_mr *core;
	struct mr_object *object;
};

struct face_mw {
	struct ibv_mw ibv;
	struct rnic_mw *core;
};

static inline struct face_device *face_device(struct ibv_device *d)
{
	return container_of(d, struct face_device, ibv);
}

static inline struct face_context *face_context(struct ibv_context *c)
{
	return container_of(c, struct face_context, vctx.context);
}

static inline bool face_is_iwarp(struct ibv_context *c)
{
	return face_device(c->device)->transport == TRANSPORT_IWARP;
}

static inline struct face_pd *face_pd(struct ibv_pd *p)
{
	return container_of(p, struct face_pd, ibv);
}

static inline struct face_mr *face_mr(struct ibv_mr *mr)
{
	return container_of(mr, struct face_mr, ibv);
}

static inline struct face_mw *face_mw(struct ibv_mw *mw)
{
	return container_of(mw, struct face_mw, ibv);
}

/* Memory that a queue has from its parent domain's allocator. Zeroed: it has none. */
struct queue_mem {
	struct face_pd *pd; /* a parent domain, which stays as long as its queues do */
	_Atomic(void *) p;  /* NULL: by default, the library's own */
	uint64_t type;
};

enum queue_type { QUEUE_QP, QUEUE_CQ, QUEUE_SRQ };

/* pd: of any kind, or NULL. 0 or -ENOMEM, if the allocator gives nothing. Without the shard's lock.
 */
int queue_mem_get(struct queue_mem *, struct ibv_pd *pd, size_t bytes, enum queue_type) must_use;
/* The memory alone: the queue has been moved. Whoever of several threads comes first does it; the
 * allocator is the program's, and called without a lock. */
void queue_mem_free(struct queue_mem *);
void queue_mem_put(struct queue_mem *);

static inline void context_get(struct face_context *c)
{
	atomic_fetch_add(&c->refs, 1);
}

static inline void context_put(struct face_context *c)
{
	if (atomic_fetch_sub(&c->refs, 1) == 1)
		free(c);
}

/* What the broker says of the device's interface now; 0 or -errno. -EIO: it is gone, which a
 * context's calls answer with as those of a device that the kernel has lost. */
int device_lookup(struct ibv_device *, struct broker_device *ret) must_use;
/* As process_devices_lately(). */
int device_lookup_lately(struct ibv_device *, struct broker_device *ret) must_use;
/* The entry of the GID table of an interface's device of RoCE. False: it is empty, or there is none
 * of that index. */
bool device_gid_at(const struct broker_device *, uint32_t index, struct gid *ret,
		   bool *ret_rocev1) must_use;
/* Which index has it; -1: none. */
int device_gid_index(const struct broker_device *, const struct gid *, bool rocev1);
/* The largest path MTU that fits the interface. */
enum ibv_mtu device_mtu(const struct broker_device *);

/* Upcall of the core: an asynchronous event for a QP, CQ or SRQ: its user pointer. */
void async_event(enum rnic_event, void *object_user);

/* For functions that return the error. */
#define REFUSED(err) log_refused("verbs", __func__, err)
/* For functions that return a pointer, or -1: errno is set and the value returned. */
#define FAIL(err, value) (errno = REFUSED(err), (value))

/* open.c fills a context's tables from these. */
int face_query_device_ex(struct ibv_context *, const struct ibv_query_device_ex_input *,
			 struct ibv_device_attr_ex *, size_t attr_size);
int face_query_port(struct ibv_context *, uint8_t port, struct ibv_port_attr *, size_t len);
struct ibv_mw *face_alloc_mw(struct ibv_pd *, enum ibv_mw_type);
int face_bind_mw(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
int face_dealloc_mw(struct ibv_mw *);
struct ibv_mr *face_alloc_null_mr(struct ibv_pd *);
struct ibv_td *face_alloc_td(struct ibv_context *, struct ibv_td_init_attr *);
int face_dealloc_td(struct ibv_td *);
struct ibv_pd *face_alloc_parent_domain(struct ibv_context *, struct ibv_parent_domain_init_attr *);
struct ibv_dm *face_alloc_dm(struct ibv_context *, struct ibv_alloc_dm_attr *);
int face_free_dm(struct ibv_dm *);
struct ibv_mr *face_reg_dm_mr(struct ibv_pd *, struct ibv_dm *, uint64_t offset, size_t length,
			      unsigned int access);
int face_advise_mr(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t flags, struct ibv_sge *,
		   uint32_t num_sge);
struct ibv_cq_ex *face_create_cq_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
int face_modify_cq(struct ibv_cq *, struct ibv_modify_cq_attr *);
int face_query_rt_values(struct ibv_context *, struct ibv_values_ex *);
int face_poll_cq(struct ibv_cq *, int num, struct ibv_wc *);
int face_req_notify_cq(struct ibv_cq *, int solicited_only);
struct ibv_qp *face_create_qp_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);
struct ibv_qp *face_open_qp(struct ibv_context *, struct ibv_qp_open_attr *);
struct ibv_xrcd *face_open_xrcd(struct ibv_context *, struct ibv_xrcd_init_attr *);
int face_close_xrcd(struct ibv_xrcd *);
struct ibv_srq *face_create_srq_ex(struct ibv_context *, struct ibv_srq_init_attr_ex *);
int face_get_srq_num(struct ibv_srq *, uint32_t *srq_num);
int face_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad_wr);
int face_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **bad_wr);
int face_post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **bad_wr);

#endif
