/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The memory a core under test gets: counted, zeroed, and failing on demand. */
#ifndef WEFT_TESTS_FUZZ_MEM_H
#define WEFT_TESTS_FUZZ_MEM_H

#include <stdbool.h>
#include <stddef.h>

struct fuzz_mem {
	long blocks;	/* given and not yet taken back */
	bool fail_next; /* the next allocation fails */
};

void *fuzz_mem_alloc(struct fuzz_mem *, size_t bytes);
void fuzz_mem_free(struct fuzz_mem *, void *p);

#endif
