// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/pages.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { KEPT_MAX = 32, KEPT_BYTES_MAX = 1 << 20 };

/* Stands at the beginning of pages that are kept. */
struct kept {
	size_t bytes;
};

/* Each taken and given in one step: a child of fork() finds them as they are. */
static _Atomic(struct kept *) kept[KEPT_MAX];

static bool keep(struct kept *k)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		struct kept *none = NULL;

		if (atomic_compare_exchange_strong(&kept[i], &none, k))
			return true;
	}
	return false;
}

void *pages_take(size_t bytes)
{
	void *p;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		struct kept *k = atomic_exchange(&kept[i], NULL);

		if (k && k->bytes == bytes)
			return k;
		if (k && !keep(k))
			munmap(k, k->bytes);
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void pages_give(void *p, size_t bytes)
{
	struct kept *k = p;

	if (bytes <= KEPT_BYTES_MAX) {
		k->bytes = bytes;
		if (keep(k))
			return;
	}
	munmap(p, bytes);
}
