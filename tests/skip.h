/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* cmocka calls a group passed in which cases were skipped, and does not say why they were.
 * scripts/run-tests.py counts what is skipped by this, and shows its reason. */
#ifndef WEFT_TESTS_SKIP_H
#define WEFT_TESTS_SKIP_H

#include <stdio.h>

/* Whether a sanitizer has a heap of its own in the place of the C library's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED_HEAP 1
#endif
#endif
#ifndef SANITIZED_HEAP
#define SANITIZED_HEAP 0
#endif

#define SKIP_CASE(why)                                     \
	do {                                               \
		printf("SKIP: %s: %s\n", __func__, (why)); \
		fflush(stdout);                            \
		skip();                                    \
	} while (0)

#endif
