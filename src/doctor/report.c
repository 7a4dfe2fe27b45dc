/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void report_free(struct report *r)
{
	free(r->v);
	memset(r, 0, sizeof(*r));
}

void report_turn(struct report *r, const struct check *check, const char *object)
{
	r->check = check;
	snprintf(r->object, sizeof(r->object), "%s", object);
}

void report_found(struct report *r, enum severity severity, const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (r->count == r->room) {
		size_t room = r->room ? 2 * r->room : 64;

		f = realloc(r->v, room * sizeof(*f));
		if (!f) {
			r->incomplete = true;
			return;
		}
		r->v = f;
		r->room = room;
	}
	f = &r->v[r->count++];
	*f = (struct finding){.check = r->check, .severity = severity};
	memcpy(f->object, r->object, sizeof(f->object));
	va_start(ap, fmt);
	vsnprintf(f->seen, sizeof(f->seen), fmt, ap);
	va_end(ap);
	text_tame(f->seen);
}

void report_mend(struct report *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->count || r->incomplete)
		return;
	va_start(ap, fmt);
	vsnprintf(r->v[r->count - 1].mend, sizeof(r->v->mend), fmt, ap);
	va_end(ap);
	text_tame(r->v[r->count - 1].mend);
}

const char *severity_name(enum severity s)
{
	static const char *const names[SEVERITIES] = {
		[DOCTOR_OK] = "ok",	      [DOCTOR_NOTE] = "note",
		[DOCTOR_UNKNOWN] = "unknown", [DOCTOR_WARNING] = "warning",
		[DOCTOR_ERROR] = "error",
	};

	return names[s];
}
