// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "sockets/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Where ours have other names (lib/meson.build), the C library's are a sanitizer's before it. */
#ifdef WEFT_RENAMED
#define BEHIND_OURS RTLD_DEFAULT
#else
#define BEHIND_OURS RTLD_NEXT
#endif

static struct real found;
static atomic_bool all_found;

NOT_SANITIZED static void *find(const char *name)
{
	void *at = dlsym(BEHIND_OURS, name);

	if (!at) {
		fprintf(stderr, "libweft-sockets.so: the C library has no %s\n", name);
		abort();
	}
	return at;
}

NOT_SANITIZED const struct real *real(void)
{
	/* Twice by two threads comes to the same. */
	if (!atomic_load_explicit(&all_found, memory_order_acquire)) {
#define FIND(ret, name, args) found.name = (ret(*) args)find(#name);
		REAL_FUNCTIONS(FIND)
#undef FIND
		atomic_store_explicit(&all_found, true, memory_order_release);
	}
	return &found;
}
