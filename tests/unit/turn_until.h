/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Turns of a test's own turn() until something holds, or its PATIENCE (ns) is over: then it fails.
 */
#ifndef WEFT_TESTS_TURN_UNTIL_H
#define WEFT_TESTS_TURN_UNTIL_H

#define turn_until(condition)                                \
	do {                                                 \
		uint64_t end_ = time_now_ns() + PATIENCE;    \
		while (!(condition) && time_now_ns() < end_) \
			turn();                              \
		assert_true(condition);                      \
	} while (0)

#endif
