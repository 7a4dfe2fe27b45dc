/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_CLI_BENCH_REPORT_H
#define WEFT_CLI_BENCH_REPORT_H

#include "cli/bench.h"
#include "cli/output.h"

struct bench_report {
	const struct bench *bench;
	const char *name, *mode; /* as --name and --rw have it */
	bool group;		 /* JSON: one job for all */
	unsigned int queue_size;
	enum output_format format;
	bool ok; /* it ran to its end, and every block was right */
};

/* False: told that it could not be written. */
bool bench_report(const struct bench_report *r) must_use;

#endif
