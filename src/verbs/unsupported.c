// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Verbs that the device does not have as yet; each fails as on an adapter without the feature.
 * docs/conformance.md lists them.
 */
#include <errno.h>

#include "verbs/face.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return REFUSED(EOPNOTSUPP); /* the kernel's IP stack resolves */
}
