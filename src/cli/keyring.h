/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys that lie in the kernel's keyrings (keyrings(7)), where no file system and no backup has
 * them: of the type "user", found by their description in the session's keyring, or else the
 * user's.
 */
#ifndef WEFT_CLI_KEYRING_H
#define WEFT_CLI_KEYRING_H

#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"

/* How many bytes it has, or -errno: ENOKEY, there is none of that name; EFBIG: more than room. */
ssize_t keyring_read(const char *description, void *buf, size_t room) must_use;

#endif
