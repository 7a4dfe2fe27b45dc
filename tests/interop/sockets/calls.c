// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "case.h"

const struct test_case calls_cases[] = {
	{0},
};
