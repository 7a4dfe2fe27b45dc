/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why something failed: one line each in cause.def. */
#ifndef WEFT_RNIC_CAUSE_H
#define WEFT_RNIC_CAUSE_H

enum rnic_cause {
#define X(name, number, text) RNIC_CAUSE_##name = (number),
#include "rnic/cause.def"
#undef X
};

#endif
