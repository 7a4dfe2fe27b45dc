/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A run as a page that a browser shows: one file, without scripts, that loads nothing. */
#ifndef WEFT_CLI_SIM_HTML_H
#define WEFT_CLI_SIM_HTML_H

#include <stddef.h>

#include "base/compiler.h"
#include "fabric/scenario/run.h"

/* 0, or -errno and a sentence in err that names the file. */
int sim_html(const char *file, const struct run_result *r, char *err, size_t err_len) must_use;

#endif
