/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sizes as people write them: 4096, 4k, 1g; up to p for 2^50. */
#ifndef WEFT_CLI_SIZE_H
#define WEFT_CLI_SIZE_H

#include <stdint.h>

#include "base/compiler.h"

/* -EINVAL: it is none of [min, max]. */
int size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret) must_use;

#endif
