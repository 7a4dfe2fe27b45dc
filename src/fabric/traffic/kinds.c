/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/traffic/kinds.h"

#include "fabric/traffic/each.h"
#include "fabric/traffic/play.h"

const char *const traffic_names[TRAFFIC_KINDS] = {
#define X(id, name, keys, text) [TRAFFIC_##id] = name,
#include "fabric/traffic/kinds.def"
#undef X
};

const char *const traffic_keys[TRAFFIC_KINDS] = {
#define X(id, name, keys, text) [TRAFFIC_##id] = keys,
#include "fabric/traffic/kinds.def"
#undef X
};

const struct kind *const play_kinds[TRAFFIC_KINDS] = {
	[TRAFFIC_FLOWS] = &kind_flows,		 [TRAFFIC_STREAM] = &kind_stream,
	[TRAFFIC_INCAST] = &kind_incast,	 [TRAFFIC_ALL_TO_ALL] = &kind_all_to_all,
	[TRAFFIC_RANDOM] = &kind_random,	 [TRAFFIC_STORAGE] = &kind_storage,
	[TRAFFIC_ALLREDUCE] = &kind_allreduce,	 [TRAFFIC_TRACE] = &kind_trace,
	[TRAFFIC_STORM] = &kind_storm,		 [TRAFFIC_DATAGRAMS] = &kind_unreliable,
	[TRAFFIC_UNRELIABLE] = &kind_unreliable, [TRAFFIC_NVME] = &kind_nvme,
};
