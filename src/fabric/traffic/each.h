/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kinds of traffic, each of a file of its own. */
#ifndef WEFT_FABRIC_TRAFFIC_EACH_H
#define WEFT_FABRIC_TRAFFIC_EACH_H

#include "fabric/traffic/play.h"

extern const struct kind kind_flows, kind_stream, kind_incast, kind_all_to_all, kind_random,
	kind_storage, kind_allreduce, kind_trace, kind_storm, kind_unreliable, kind_nvme;

#endif
