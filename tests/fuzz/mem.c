/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "mem.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "fuzz.h"

/*
 * The tables of a core are megabytes, of which an input touches a few pages. They come from
 * mappings that stay, and are emptied for the next input, which zeroes only what was touched.
 */
#define BIG_FROM (64u << 10)

static struct {
	void *p;
	size_t bytes;
	bool used;
} big[16];

static void *big_alloc(size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(big); i++) {
		if (big[i].used || (big[i].p && big[i].bytes != bytes))
			continue;
		if (!big[i].p)
			big[i].p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		else
			must(!madvise(big[i].p, bytes, MADV_DONTNEED));
		must(big[i].p != MAP_FAILED);
		big[i].bytes = bytes;
		big[i].used = true;
		return big[i].p;
	}
	return NULL;
}

void *fuzz_mem_alloc(struct fuzz_mem *m, size_t bytes)
{
	void *p = NULL;

	if (!m->fail_next) {
		p = bytes >= BIG_FROM ? big_alloc(bytes) : NULL;
		p = p ? p : calloc(1, bytes);
		must(p);
		m->blocks++;
	}
	m->fail_next = false;
	return p;
}

void fuzz_mem_free(struct fuzz_mem *m, void *p)
{
	if (!p)
		return;
	m->blocks--;
	for (size_t i = 0; i < ARRAY_SIZE(big); i++)
		if (big[i].p == p) {
			must(big[i].used);
			big[i].used = false;
			return;
		}
	free(p);
}
