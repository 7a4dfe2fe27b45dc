/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A target's figures in the text form that Prometheus reads, version 0.0.4. Names of hosts are
 * whatever they say they are: what is no UTF-8 in them, and a backslash, is shown as \xNN, so that
 * no two names become one.
 */
#ifndef WEFT_CLI_METRICS_TEXT_H
#define WEFT_CLI_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/served.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_text(FILE *f, const struct served *v, const struct target_counters *n);
/* The same in memory to be freed; NULL: there is none. */
char *metrics_page(const struct served *v, const struct target_counters *n, size_t *ret_len);

#endif
