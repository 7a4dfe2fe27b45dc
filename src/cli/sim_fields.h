/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The figures of a run's groups, size classes, ports and totals, each told once: the text's
 * tables, the JSON, the CSV and the page's tables are all made from these lists.
 */
#ifndef WEFT_CLI_SIM_FIELDS_H
#define WEFT_CLI_SIM_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/output.h"

/* The C type, and the unit that people see it in. */
enum sim_kind {
	SIM_TEXT,	/* const char * */
	SIM_BOOL,	/* bool */
	SIM_SIZE,	/* size_t, a count */
	SIM_COUNT,	/* uint64_t */
	SIM_BYTES,	/* uint64_t */
	SIM_NS,		/* uint64_t */
	SIM_REAL,	/* double, of no unit: a part of 1 */
	SIM_TIMES,	/* double, of no unit: many */
	SIM_GBPS,	/* double */
	SIM_BYTES_REAL, /* double */
};

struct sim_field {
	const char *key;   /* of JSON and CSV */
	const char *title; /* NULL: programs see it, people do not */
	enum sim_kind kind;
	bool if_any; /* people see it only where it is not 0 */
	size_t offset;
};

struct sim_shape {
	const struct sim_field *fields;
	size_t nfields, bytes; /* of one record */
};

extern const struct sim_shape sim_groups, sim_sizes, sim_ports, sim_totals;

/* Some of an array's records: pick[0..n), or the first n if pick is NULL. */
struct sim_table {
	const struct sim_shape *shape;
	const void *records;
	const size_t *pick;
	size_t n;
};

enum { SIM_CELL_MAX = 256 };

const void *sim_table_row(const struct sim_table *t, size_t i);
bool sim_field_shown(const struct sim_table *t, const struct sim_field *f);
/* Whether its column is one of words, not of numbers. */
bool sim_field_is_text(const struct sim_field *f);
/* A SIM_TEXT, whole. */
const char *sim_field_words(const struct sim_field *f, const void *record);
/* For people, with its unit: buf of SIM_CELL_MAX. Nothing is "-". */
const char *sim_field_text(char *buf, const struct sim_field *f, const void *record);
/* For programs, without: buf of SIM_CELL_MAX. A number that is none is empty. */
const char *sim_field_plain(char *buf, const struct sim_field *f, const void *record);
/* All as fields of the open object; the text form has those that people see. */
void sim_fields_put(struct output *o, const struct sim_shape *shape, const void *record);
/* The text form's table: a line of titles, and one each record. */
void sim_table_tell(struct output *o, const struct sim_table *t);

#endif
