/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The plots of a run's page: those that it has figures for. */
#ifndef WEFT_CLI_SIM_PLOTS_H
#define WEFT_CLI_SIM_PLOTS_H

#include <stdio.h>

#include "fabric/scenario/run.h"

/* False: there was nothing to be plotted. */
bool sim_plots_put(FILE *f, const struct run_result *r);

#endif
