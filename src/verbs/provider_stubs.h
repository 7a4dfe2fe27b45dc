/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Names without an installed prototype: they take the arguments their callers pass and use none. */
#ifndef WEFT_VERBS_PROVIDER_STUBS_H
#define WEFT_VERBS_PROVIDER_STUBS_H

#include <stdbool.h>

#define X(name) int name(void);
#include "verbs/provider_stubs.def"
#undef X

extern bool verbs_allow_disassociate_destroy;
unsigned int __ioctl_final_num_attrs(void);
void __verbs_log(void);
void *_verbs_init_and_alloc_context(void);
void *verbs_open_device(void);
int ibv_read_ibdev_sysfs_file(void);
void verbs_register_driver_34(void);
void verbs_init_cq(void);
void verbs_set_ops(void);
void verbs_uninit_context(void);
void ibv_copy_ah_attr_from_kern(void);
void ibv_copy_path_rec_from_kern(void);
void ibv_copy_path_rec_to_kern(void);
void ibv_copy_qp_attr_from_kern(void);

#endif
