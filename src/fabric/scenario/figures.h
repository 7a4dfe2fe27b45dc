/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The figures that a scenario may expect something of. */
#ifndef WEFT_FABRIC_SCENARIO_FIGURES_H
#define WEFT_FABRIC_SCENARIO_FIGURES_H

#include "fabric/scenario/run.h"
#include "fabric/traffic/play.h"

int figures_judge(struct run_result *, const struct play *) must_use; /* -ENOMEM */
/* Jain's index of n values, by their sum and that of their squares; 1 where all are 0. */
double figures_jain(double sum, double squares, unsigned n);
/* Of n sorted values, at least one, the place of the least that such a part of them does not
 * exceed: of a hundred, 0.99 is that of the 99th. */
size_t figures_rank(size_t n, double part);
/* That value; 0 of none. */
double figures_percentile(const double *sorted, size_t n, double part);
/* How long a step of a run is: the last one ends with it. */
double figures_step_ns(uint64_t step_ns, size_t i, uint64_t ended_ns);
int figures_compare(const void *a, const void *b);
/* Jain's index over those that are sources. */
double figures_fairness(const double *v, const unsigned *of, unsigned n);

#endif
