/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which congestion control the user wants, and how. */
#ifndef WEFT_ENGINE_CONGESTION_H
#define WEFT_ENGINE_CONGESTION_H

#include "rnic/cc/cc.h"

/* What WEFT_CC names: an algorithm, parameters (NAME=NUMBER, rnic/cc/params.def), or both, with
 * commas between. Of what there is not the log says so, and the default is taken. */
const struct cc_ops *congestion_wanted(struct cc_params *ret);

#endif
