/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What was found: a list of findings, each with what was seen and the line to type. */
#ifndef WEFT_DOCTOR_REPORT_H
#define WEFT_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* What could not be looked at is never well. */
enum severity { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_UNKNOWN, DOCTOR_WARNING, DOCTOR_ERROR, SEVERITIES };

struct check {
	const char *name, *title, *why, *source;
};

struct finding {
	const struct check *check;
	enum severity severity;
	char object[64]; /* "this host", an interface, a device, a peer */
	char seen[320];
	char mend[320]; /* what to type or do; empty where there is nothing to be done */
};

struct report {
	struct finding *v;
	size_t count, room;
	bool incomplete; /* there was no memory for a finding */
	const struct check *check;
	char object[64];
};

void report_free(struct report *);
/* What is found from here on is found by that check and of that object. */
void report_turn(struct report *, const struct check *, const char *object);
void report_found(struct report *, enum severity, const char *fmt, ...) printf_like(3, 4);
/* How to mend what was found last. */
void report_mend(struct report *, const char *fmt, ...) printf_like(2, 3);

const char *severity_name(enum severity);

#endif
