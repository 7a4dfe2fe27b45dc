/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The settings of a host of which a test wants nothing special. */
#ifndef WEFT_TESTS_UNIT_PLAIN_HOST_H
#define WEFT_TESTS_UNIT_PLAIN_HOST_H

#include <string.h>

#include "base/time.h"
#include "nvmf/host/host.h"

/* Without keep-alive, and it never connects again. */
static inline struct host_config plain_host(const char *subnqn, uint16_t io_queues,
					    uint16_t io_entries)
{
	struct host_config c = {
		.hostnqn = "nqn.2026-11.io.example:host",
		.hostid = {1, 2, 3},
		.io_queues = io_queues,
		.io_entries = io_entries,
		.open_timeout_ns = 5 * NSEC_PER_SEC,
		.command_timeout_ns = 30 * NSEC_PER_SEC,
		.shutdown_timeout_ns = 5 * NSEC_PER_SEC,
	};

	strcpy(c.subnqn, subnqn);
	return c;
}

#endif
