/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/output.h"

#define COLOUR_TITLE "\033[1;36m"
#define COLOUR_LABEL "\033[1m"
#define COLOUR_ERROR "\033[1;31m"
#define COLOUR_WARN  "\033[33m"
#define COLOUR_OFF   "\033[0m"

bool output_colour(FILE *f)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(fileno(f)) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

static void complain(enum log_level level, const char *colour, const char *fmt, va_list ap)
{
	bool coloured = output_colour(stderr);
	char text[8192];

	vsnprintf(text, sizeof(text), fmt, ap);
	text_tame(text); /* some of it may come from a peer */
	fprintf(stderr, "%s%sweft:%s %s\n", log_prefix(level), coloured ? colour : "",
		coloured ? COLOUR_OFF : "", text);
}

int cli_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(LOG_LEVEL_ERR, COLOUR_ERROR, fmt, ap);
	va_end(ap);
	return EXIT_FAILED;
}

void cli_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(LOG_LEVEL_WARN, COLOUR_WARN, fmt, ap);
	va_end(ap);
}

int output_format_parse(const char *text, enum output_format *ret)
{
	if (strcmp(text, "json") == 0)
		*ret = OUTPUT_JSON;
	else if (strcmp(text, "normal") == 0 || strcmp(text, "text") == 0)
		*ret = OUTPUT_TEXT;
	else if (strcmp(text, "binary") == 0)
		*ret = OUTPUT_BINARY;
	else
		return -EINVAL;
	return 0;
}

void output_init(struct output *o, FILE *file, enum output_format format)
{
	*o = (struct output){
		.file = file,
		.format = format,
		.colour = format == OUTPUT_TEXT && output_colour(file),
		.separator = ": ",
	};
	if (format == OUTPUT_JSON)
		o->stack[0] = json_object_new_object();
}

void output_be_list(struct output *o)
{
	if (o->format != OUTPUT_JSON)
		return;
	json_object_put(o->stack[0]);
	o->stack[0] = json_object_new_array();
}

static void indent(const struct output *o)
{
	if (!o->flat)
		fprintf(o->file, "%*s", o->depth * 2, "");
}

/* Puts v under key into the innermost open object, or appends it to the innermost list. */
static void add(struct output *o, const char *key, struct json_object *v)
{
	struct json_object *top = o->stack[o->depth];

	if (json_object_is_type(top, json_type_array)) {
		assert(!key);
		json_object_array_add(top, v);
	} else {
		assert(key);
		json_object_object_add(top, key, v);
	}
}

static void open_level(struct output *o, const char *key, struct json_object *v, const char *title,
		       va_list ap)
{
	assert(o->depth + 1 < OUTPUT_DEPTH_MAX);
	if (o->format == OUTPUT_JSON) {
		add(o, key, v);
		o->stack[o->depth + 1] = v;
	} else if (title) {
		indent(o);
		fputs(o->colour ? COLOUR_TITLE : "", o->file);
		vfprintf(o->file, title, ap);
		fputs(o->colour ? COLOUR_OFF "\n" : "\n", o->file);
	}
	o->depth++;
}

void output_object(struct output *o, const char *key, const char *title, ...)
{
	va_list ap;

	va_start(ap, title);
	open_level(o, key, o->format == OUTPUT_JSON ? json_object_new_object() : NULL, title, ap);
	va_end(ap);
}

void output_list(struct output *o, const char *key, const char *title, ...)
{
	va_list ap;

	va_start(ap, title);
	open_level(o, key, o->format == OUTPUT_JSON ? json_object_new_array() : NULL, title, ap);
	va_end(ap);
}

void output_close(struct output *o)
{
	assert(o->depth > 0);
	o->depth--;
}

static void field(struct output *o, const char *label, const char *value)
{
	const char *on = o->colour ? COLOUR_LABEL : "";
	const char *off = o->colour ? COLOUR_OFF : "";
	int pad = o->width - (int)strlen(label);

	if (pad < 0)
		pad = 0;
	indent(o);
	if (o->pad_after_colon)
		fprintf(o->file, "%s%s%s%s%*s%s\n", on, label, off, o->separator, pad, "", value);
	else
		fprintf(o->file, "%s%s%s%*s%s%s\n", on, label, off, pad, "", o->separator, value);
}

void output_string(struct output *o, const char *key, const char *label, const char *value)
{
	if (o->format == OUTPUT_JSON)
		add(o, key, json_object_new_string(value));
	else
		field(o, label ? label : key, value);
}

void output_number(struct output *o, const char *key, const char *label, uint64_t value,
		   const char *text)
{
	char plain[24];

	if (o->format == OUTPUT_JSON) {
		add(o, key, json_object_new_uint64(value));
		return;
	}
	snprintf(plain, sizeof(plain), "%llu", (unsigned long long)value);
	field(o, label ? label : key, text ? text : plain);
}

void output_hex(struct output *o, const char *key, const char *label, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%#llx", (unsigned long long)value);
	output_number(o, key, label, value, text);
}

void output_wide(struct output *o, const char *key, const char *label, uint64_t hi, uint64_t lo)
{
	unsigned __int128 n = (unsigned __int128)hi << 64 | lo;
	char text[48], *p = text + sizeof(text) - 1;
	double rounded = (double)n;

	*p = 0;
	do {
		*--p = (char)('0' + (int)(n % 10));
		n /= 10;
	} while (n);
	if (o->format == OUTPUT_JSON && hi)
		add(o, key, json_object_new_double_s(rounded, p));
	else
		output_number(o, key, label, lo, p);
}

void output_real(struct output *o, const char *key, const char *label, double value,
		 const char *text)
{
	char plain[40];

	snprintf(plain, sizeof(plain), "%.3f", value);
	if (o->format == OUTPUT_JSON)
		add(o, key, json_object_new_double_s(value, plain));
	else
		field(o, label ? label : key, text ? text : plain);
}

void output_bool(struct output *o, const char *key, const char *label, bool value)
{
	if (o->format == OUTPUT_JSON)
		add(o, key, json_object_new_boolean(value));
	else
		field(o, label ? label : key, value ? "yes" : "no");
}

bool output_bytes(struct output *o, const char *key, const char *label, const uint8_t *bytes,
		  size_t len)
{
	char *digits = malloc(2 * len + 1);

	if (!digits) {
		cli_fail("out of memory for %zu bytes", len);
		return false;
	}
	digits[0] = 0;
	for (size_t i = 0; i < len; i++)
		snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
	output_string(o, key, label, digits);
	free(digits);
	return true;
}

void output_note(struct output *o, const char *fmt, ...)
{
	va_list ap;

	if (o->format == OUTPUT_JSON)
		return;
	va_start(ap, fmt);
	indent(o);
	vfprintf(o->file, fmt, ap);
	fputc('\n', o->file);
	va_end(ap);
}

bool output_finish(struct output *o)
{
	o->depth = 0;
	if (o->format == OUTPUT_JSON) {
		fputs(json_object_to_json_string_ext(
			      o->stack[0], JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
						   JSON_C_TO_STRING_NOSLASHESCAPE),
		      o->file);
		fputc('\n', o->file);
		json_object_put(o->stack[0]);
		o->stack[0] = NULL;
	}
	if (fflush(o->file) == 0 && !ferror(o->file))
		return true;
	cli_fail("cannot write the result: %s", strerror(errno));
	return false;
}

const char *text_bytes(char *buf, size_t room, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	unsigned int u = 0;

	while (v >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	if (u == 0 || v == (double)(uint64_t)v)
		snprintf(buf, room, "%.0f %s", v, units[u]);
	else
		snprintf(buf, room, "%.*f %s", v < 10 ? 2 : 1, v, units[u]);
	return buf;
}

const char *text_duration(char *buf, size_t room, uint64_t ns)
{
	static const char *const units[] = {"ns", "µs", "ms", "s"};
	double v = (double)ns;
	unsigned int u = 0;

	while (v >= 1000 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1000;
		u++;
	}
	snprintf(buf, room, "%.*f %s", u == 0 || v >= 100 ? 0 : v < 10 ? 2 : 1, v, units[u]);
	return buf;
}
