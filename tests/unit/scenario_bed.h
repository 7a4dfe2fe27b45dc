/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scenarios as text, read and run: what is wrong with one fails the test. */
#ifndef WEFT_TESTS_SCENARIO_BED_H
#define WEFT_TESTS_SCENARIO_BED_H

#include "fabric/scenario/run.h"

#define STREAM "traffic: [{kind: stream, from: 1, to: 0}]\n"

struct scenario *good(const char *text);
/* It is refused, by a sentence that has this in it. */
void bad(const char *text, const char *says);
/* seed: 0: the scenario's */
struct run_result *run_it(const struct scenario *s, uint64_t seed);
/* Of what is expected, by its number. */
double figure(const struct run_result *r, size_t i);
/* It is run, and all that it expects is met. */
void meets_its_expectations(const char *text);

#endif
