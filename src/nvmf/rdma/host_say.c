/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stdio.h>

#include "nvmf/rdma/host.h"

void rdma_host_say(struct rdma_host *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->error, sizeof(r->error), fmt, ap);
	va_end(ap);
}
