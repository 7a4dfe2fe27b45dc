/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the fuzzers share. Each is one LLVMFuzzerTestOneInput(), linked with libFuzzer in a
 * -Dfuzz=true build, and with driver.c elsewhere, which feeds it the seeds once.
 */
#ifndef WEFT_TESTS_FUZZ_FUZZ_H
#define WEFT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold for any input; stays on in every build. */
#define must(cond)                                                                           \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                             \
		}                                                                            \
	} while (0)

#endif
