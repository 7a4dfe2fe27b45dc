// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The private names that rdma-core's providers (libmlx5, libefa, libmlx4) import.
 *
 * Programs such as perftest and UCX link those providers for their direct verbs and are bound at
 * start, so the names must be there for them to load. None is ever called on our devices: a
 * provider registers itself at load, finds no device that is its own, and is asked nothing more.
 * A call that comes all the same fails as it would on a kernel without the command.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/provider_stubs.h"

#define X(name)                     \
	int name(void)              \
	{                           \
		errno = EOPNOTSUPP; \
		return EOPNOTSUPP;  \
	}
#include "verbs/provider_stubs.def"
#undef X

bool verbs_allow_disassociate_destroy;

unsigned int __ioctl_final_num_attrs(void)
{
	return 0;
}

void __verbs_log(void)
{
}

void *_verbs_init_and_alloc_context(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

void *verbs_open_device(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_read_ibdev_sysfs_file(void)
{
	errno = ENOENT;
	return -1;
}

void verbs_register_driver_34(void)
{
}

void verbs_init_cq(void)
{
}

void verbs_set_ops(void)
{
}

void verbs_uninit_context(void)
{
}

/* The translation of the kernel's structures, which only a librdmacm of the kernel's CM needs. */
void ibv_copy_ah_attr_from_kern(void)
{
}

void ibv_copy_path_rec_from_kern(void)
{
}

void ibv_copy_path_rec_to_kern(void)
{
}

void ibv_copy_qp_attr_from_kern(void)
{
}
