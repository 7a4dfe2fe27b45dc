/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_SOCKETS_OWN_H
#define WEFT_SOCKETS_OWN_H

#include <stdbool.h>

#include "base/compiler.h"

/* Is that in one of our libraries? Of a call: __builtin_return_address(0). */
bool own_caller(const void *from);
/* It is ours from now on, by the number that comes back. A negative one is what it is. */
int own_keep(int fd) must_use;
bool own_number(int fd);
/* False: there is nothing to be closed for who asks. */
bool own_close(int fd, bool ours);
void own_end(int fd);
/* As close_range(), without what is ours. */
int own_close_range(unsigned int first, unsigned int last, int flags);

#endif
