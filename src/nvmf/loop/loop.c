/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/loop/conn.h"

/* None is a machine's. */
static int addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
		     void *ctx)
{
	(void)family;
	(void)show;
	(void)ctx;
	return 0;
}

const struct nvmf_transport loop_transport = {
	.name = "loop",
	.port = "1",
	.no_answer = "nobody in this process moves the target on",
	.target_create = loop_target_create,
	.addresses = addresses,
	.host_create = loop_host_create,
};
