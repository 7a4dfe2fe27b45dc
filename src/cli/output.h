/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a command prints. A command describes its result once, as objects, lists and fields; the
 * text form is an aligned hierarchy with colour on terminals (NO_COLOR honoured), the JSON form
 * an object of the same shape. Text appears at once, JSON at output_finish().
 *
 * Failures: one line on stderr that names the object and the next step.
 */
#ifndef WEFT_CLI_OUTPUT_H
#define WEFT_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

/* OUTPUT_BINARY: what the controller sent, as it came; only some commands have that. */
enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_BINARY };

enum { OUTPUT_DEPTH_MAX = 8 };

struct json_object;

struct output {
	FILE *file;
	enum output_format format;
	bool colour;
	bool flat;	       /* text: no indentation (nvme-cli's look) */
	const char *separator; /* text: between label and value; ": " unless set */
	int width;	       /* text: labels are padded to this */
	bool pad_after_colon;  /* text: "label:   value" rather than "label   : value" */
	int depth;
	struct json_object *stack[OUTPUT_DEPTH_MAX];
};

/* "normal", "text", "json" or "binary", as -o takes it. */
int output_format_parse(const char *text, enum output_format *ret) must_use;

void output_init(struct output *o, FILE *file, enum output_format format);
/* The JSON form is a list, not an object; nothing may be in it yet. */
void output_be_list(struct output *o);
/* An object or list within the present one; key NULL for an element of a list. The title is the
 * text form's line, NULL for none; text inside is indented one step further. */
void output_object(struct output *o, const char *key, const char *title, ...) printf_like(3, 4);
void output_list(struct output *o, const char *key, const char *title, ...) printf_like(3, 4);
void output_close(struct output *o);
/* Fields. label is the text form's name (the key if NULL); text the text form's value (the plain
 * value if NULL). */
void output_string(struct output *o, const char *key, const char *label, const char *value);
void output_number(struct output *o, const char *key, const char *label, uint64_t value,
		   const char *text);
/* A number that is written in hexadecimal in the text form. */
void output_hex(struct output *o, const char *key, const char *label, uint64_t value);
/* One of 128 bits, the upper and the lower half; in decimal. */
void output_wide(struct output *o, const char *key, const char *label, uint64_t hi, uint64_t lo);
void output_real(struct output *o, const char *key, const char *label, double value,
		 const char *text);
void output_bool(struct output *o, const char *key, const char *label, bool value);
/* Bytes, as two hexadecimal digits each. False: told. */
bool output_bytes(struct output *o, const char *key, const char *label, const uint8_t *bytes,
		  size_t len) must_use;
/* A line of the text form alone. */
void output_note(struct output *o, const char *fmt, ...) printf_like(2, 3);
/* Writes the JSON form, closes everything. False (and a line on stderr) if writing failed. */
bool output_finish(struct output *o) must_use;

/* 1536 -> "1.5 KiB"; buf of 32 bytes is enough; returns buf. */
const char *text_bytes(char *buf, size_t room, uint64_t bytes);
/* 1234567 -> "1.23 ms", from nanoseconds. */
const char *text_duration(char *buf, size_t room, uint64_t ns);

/* Whether colour may be used on f. */
bool output_colour(FILE *f);
/* "weft: …" on stderr; returns EXIT_FAILED. */
int cli_fail(const char *fmt, ...) printf_like(1, 2);
void cli_warn(const char *fmt, ...) printf_like(1, 2);

#endif
