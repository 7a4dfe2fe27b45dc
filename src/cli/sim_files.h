/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The figures of a run as CSV, for other programs to plot. */
#ifndef WEFT_CLI_SIM_FILES_H
#define WEFT_CLI_SIM_FILES_H

#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"
#include "fabric/scenario/run.h"

/* Writes flows.csv, groups.csv, queues.csv, ports.csv and slowdown.csv into the directory, which is
 * made if there is none. 0, or -errno and a sentence in err that names the file. */
int sim_files_csv(const char *directory, const struct run_result *r, char *err,
		  size_t err_len) must_use;
/* A file that is there whole or not at all: what stood there before stays until then. put writes
 * the text of r. 0, or -errno and a sentence. */
int sim_file_write(const char *path, void (*put)(FILE *f, const struct run_result *r),
		   const struct run_result *r, char *err, size_t err_len) must_use;

#endif
