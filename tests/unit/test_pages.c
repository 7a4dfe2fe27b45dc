/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Populating pages: what is there, what is not, and kernels that cannot. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../skip.h"
#include "engine/pages.h"

static size_t page;
static bool old_kernel; /* knows no such advice */

int __real_madvise(void *p, size_t len, int advice);
int __wrap_madvise(void *p, size_t len, int advice);
int __wrap_madvise(void *p, size_t len, int advice)
{
	if (old_kernel) {
		errno = EINVAL;
		return -1;
	}
	return __real_madvise(p, len, advice);
}

static uint8_t *map(size_t pages, int prot)
{
	void *p = mmap(NULL, pages * page, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void needs_a_kernel_that_populates(void)
{
	uint8_t *p = map(1, PROT_READ);

	if (__real_madvise(p, page, 22) && errno == EINVAL) {
		munmap(p, page);
		SKIP_CASE("Linux before 5.14 does not tell what a touch would meet");
	}
	munmap(p, page);
}

static int setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	old_kernel = false;
	return 0;
}

static void pages_come_in_and_keep_their_bytes(void **state)
{
	uint8_t *p = map(4, PROT_READ | PROT_WRITE);
	unsigned char there[4];

	(void)state;
	needs_a_kernel_that_populates();
	p[page] = 7;
	assert_int_equal(pages_populate(p + page - 1, 2, true), 0);
	assert_int_equal(mincore(p, 4 * page, there), 0);
	assert_true(there[0] & there[1] & 1);
	assert_false(there[2] & 1);
	assert_int_equal(p[page], 7);
	assert_int_equal(p[page - 1], 0);
	assert_int_equal(pages_populate(p, 0, true), 0);
	munmap(p, 4 * page);
}

static void rights_are_the_pages(void **state)
{
	uint8_t *p = map(3, PROT_READ | PROT_WRITE);

	(void)state;
	needs_a_kernel_that_populates();
	mprotect(p + page, page, PROT_READ);
	assert_int_equal(pages_populate(p, 3 * page, false), 0);
	assert_int_equal(pages_populate(p, 3 * page, true), -EFAULT);
	assert_int_equal(pages_populate(p, page, true), 0);
	mprotect(p + page, page, PROT_NONE);
	assert_int_equal(pages_populate(p, 3 * page, false), -EFAULT);
	munmap(p, 3 * page);
}

static void what_is_not_mapped_is_found_by_every_kernel(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		uint8_t *p = map(3, PROT_READ | PROT_WRITE);

		old_kernel = i;
		munmap(p + page, page);
		assert_int_equal(pages_populate(p, 3 * page, true), -EFAULT);
		assert_int_equal(pages_populate(p + page, 1, false), -EFAULT);
		assert_int_equal(pages_populate(p, page, true), 0);
		assert_int_equal(pages_populate(NULL, SIZE_MAX, false), -EFAULT);
		assert_int_equal(pages_populate(p, SIZE_MAX, false), -EFAULT);
		munmap(p, page);
		munmap(p + 2 * page, page);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		T(pages_come_in_and_keep_their_bytes),
		T(rights_are_the_pages),
		T(what_is_not_mapped_is_found_by_every_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
