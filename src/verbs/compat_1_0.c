// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The IBVERBS_1.0 versions of names that have a newer one: the structures of 2005, before
 * libibverbs 1.1. A program of that time loads and is told that there is no device: its device list
 * fails with ENOSYS, and without a device it can call nothing else.
 */
#include <errno.h>
#include <stddef.h>

#define COMPAT_IN(node, name)      \
	void *compat_##name(void); \
	void *compat_##name(void)  \
	{                          \
		errno = ENOSYS;    \
		return NULL;       \
	}                          \
	__asm__(".symver compat_" #name ", " #name "@" node)
#define COMPAT(name) COMPAT_IN("IBVERBS_1.0", name)

COMPAT(ibv_ack_async_event);
COMPAT(ibv_ack_cq_events);
COMPAT(ibv_alloc_pd);
COMPAT(ibv_attach_mcast);
COMPAT(ibv_close_device);
COMPAT(ibv_create_ah);
COMPAT(ibv_create_cq);
COMPAT(ibv_create_qp);
COMPAT(ibv_create_srq);
COMPAT(ibv_dealloc_pd);
COMPAT(ibv_dereg_mr);
COMPAT(ibv_destroy_ah);
COMPAT(ibv_destroy_cq);
COMPAT(ibv_destroy_qp);
COMPAT(ibv_destroy_srq);
COMPAT(ibv_detach_mcast);
COMPAT(ibv_free_device_list);
COMPAT(ibv_get_async_event);
COMPAT(ibv_get_cq_event);
COMPAT(ibv_get_device_guid);
COMPAT(ibv_get_device_list);
COMPAT(ibv_get_device_name);
COMPAT(ibv_modify_qp);
COMPAT(ibv_modify_srq);
COMPAT(ibv_open_device);
COMPAT(ibv_query_device);
COMPAT(ibv_query_gid);
COMPAT(ibv_query_pkey);
COMPAT(ibv_query_port);
COMPAT(ibv_query_qp);
COMPAT(ibv_query_srq);
COMPAT(ibv_reg_mr);
COMPAT(ibv_resize_cq);

/* A provider's registration of before the private node. */
COMPAT_IN("IBVERBS_1.1", ibv_register_driver);
