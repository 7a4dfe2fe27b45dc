/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who a host says that it is. */
#ifndef WEFT_NVMF_LIB_IDENTITY_H
#define WEFT_NVMF_LIB_IDENTITY_H

#include <stddef.h>

#include "nvmf/lib/uri.h"

/*
 * What the texts say (empty: nothing), else /etc/nvme/hostnqn and /etc/nvme/hostid, else names that
 * are made from this machine's ID and thus stay the same. -EINVAL and why.
 */
int identity_of_host(const char *hostnqn, const char *hostid, char ret_nqn[NVME_URI_NQN_MAX + 1],
		     uint8_t ret_id[16], char *why, size_t room) must_use;

#endif
