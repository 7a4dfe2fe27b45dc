/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which congestion control the user wants. */
#ifndef WEFT_ENGINE_CONGESTION_H
#define WEFT_ENGINE_CONGESTION_H

#include "rnic/cc/cc.h"

/* What WEFT_CC names; where it names none that there is, the log says so, and it is the default. */
const struct cc_ops *congestion_wanted(void);

#endif
