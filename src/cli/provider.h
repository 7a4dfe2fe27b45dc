/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which verbs library the storage half runs on: weft's own, which the program finds beside
 * itself, or the system's rdma-core with the machine's RNICs.
 */
#ifndef WEFT_CLI_PROVIDER_H
#define WEFT_CLI_PROVIDER_H

#include <stdbool.h>

/* "weft" or "system". */
bool provider_valid(const char *name);
/* Whether provider_use() will. */
bool provider_starts_anew(const char *name);
/*
 * Makes sure this process runs on the named library: NULL and "weft" are what it has already,
 * "system" starts the program anew with the system's library directory first. Call it before
 * anything else is done. 0, or EXIT_FAILED after telling why not.
 */
int provider_use(const char *name);

#endif
