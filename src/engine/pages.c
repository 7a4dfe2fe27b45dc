/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Is something mapped all over [at, end)? at begins a page. */
static bool mapped(uintptr_t at, uintptr_t end, size_t page)
{
	unsigned char residency[4096]; /* which is not asked for, but must be taken */

	while (at < end) {
		size_t n = min_of((size_t)(end - at), sizeof(residency) * page);

		if (mincore((void *)at, n, residency) && errno == ENOMEM)
			return false;
		at += (n + page - 1) & ~(page - 1);
	}
	return true;
}

/* The kernel refuses advice it does not know and ranges it does not like with the same EINVAL. */
static bool kernel_populates(size_t page)
{
	char here;

	return !madvise((void *)((uintptr_t)&here & ~(uintptr_t)(page - 1)), page,
			MADV_POPULATE_READ);
}

int pages_populate(const void *p, size_t len, bool write)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)p & ~(uintptr_t)(page - 1), end = (uintptr_t)p + len;

	if (!len)
		return 0;
	if (end < (uintptr_t)p)
		return -EFAULT;
	if (!madvise((void *)at, end - at, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	switch (errno) {
	case ENOMEM:
		return mapped(at, end, page) ? -ENOMEM : -EFAULT;
	case EINVAL:
		if (!kernel_populates(page))
			return mapped(at, end, page) ? 0 : -EFAULT;
		return -EFAULT;
	default:
		return -EFAULT;
	}
}
