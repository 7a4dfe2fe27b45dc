/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/counted.h"

#include "base/sight.h"

#define X(name, unit, text) #name " "
static const char target_keys[] =
#include "nvmf/target/counters.def"
	;
static const char host_keys[] =
#include "nvmf/host/counters.def"
	;
#undef X

struct target_counters *counted_target(void)
{
	return sight_take("target", target_keys, SIGHT_COLUMNS(struct target_counters), 1);
}

struct host_counters *counted_host(void)
{
	return sight_take("host", host_keys, SIGHT_COLUMNS(struct host_counters), 1);
}
