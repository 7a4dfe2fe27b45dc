/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The core's typed causes and failures as lines that people read. */
#ifndef WEFT_ENGINE_FAILURE_H
#define WEFT_ENGINE_FAILURE_H

#include "rnic/rnic.h"

/* At the level info: the application has the completion or the event. */
void failure_log(const struct rnic_failure *f);

#endif
