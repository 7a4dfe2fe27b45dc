/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* cmocka calls a group passed in which cases were skipped, and does not say why they were.
 * scripts/run-tests.py counts what is skipped by this, and shows its reason. */
#ifndef WEFT_TESTS_SKIP_H
#define WEFT_TESTS_SKIP_H

#include <stdio.h>

#define SKIP_CASE(why)                                     \
	do {                                               \
		printf("SKIP: %s: %s\n", __func__, (why)); \
		fflush(stdout);                            \
		skip();                                    \
	} while (0)

#endif
