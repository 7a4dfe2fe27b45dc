/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Asking the kernel for the pages behind an address range, without touching what is in them. */
#ifndef WEFT_ENGINE_PAGES_H
#define WEFT_ENGINE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/*
 * Makes the pages of [p, p + len) present, to be read or to be written, as a fault on each would.
 * Nothing is pinned. -EFAULT: something of it is not mapped, lies beyond the end of its file, or
 * has not the right; -ENOMEM: no memory. On kernels that cannot (before Linux 5.14) only what is
 * not mapped is found.
 */
int pages_populate(const void *p, size_t len, bool write) must_use;

#endif
