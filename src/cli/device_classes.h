/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a device's packets carry, and who slows down how, of weft's own libibverbs alone. */
#ifndef WEFT_CLI_DEVICE_CLASSES_H
#define WEFT_CLI_DEVICE_CLASSES_H

#include "cli/output.h"

struct ibv_context;

void device_classes_show(struct output *, struct ibv_context *);

#endif
