/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The keys of a scenario's sections, as YAML has them. A section is a mapping; each of its keys is
 * taken once by somebody, and what nobody took is an error that names it, its line, and what may
 * have been meant.
 */
#ifndef WEFT_FABRIC_SCENARIO_KEYS_H
#define WEFT_FABRIC_SCENARIO_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "base/compiler.h"

enum section {
	SECTION_TOP,
	SECTION_TOPOLOGY,
	SECTION_LINE,
	SECTION_HOSTS,
	SECTION_SWITCHES,
	SECTION_INFINIBAND,
	SECTION_TRAFFIC,
	SECTION_EXPECT,
};

struct reader {
	yaml_document_t document;
	const char *name; /* of the file */
	char *err;
	size_t err_len;
	bool failed; /* and err says how */
};

/* The first thing that is wrong is what is told. node: where; NULL: no line. Returns false. */
bool keys_fail(struct reader *, const yaml_node_t *node, const char *fmt, ...) printf_like(3, 4);

/* NULL: it is not there. name NULL for the mapping as a whole. */
yaml_node_t *keys_find(struct reader *, const yaml_node_t *mapping, const char *name);
/* Its text, borrowed; NULL: it is not there, or failed. */
const char *keys_text(struct reader *, const yaml_node_t *mapping, const char *name);
/* Puts the section's defaults in its struct. */
void keys_defaults(enum section, void *base);
/* Reads the quantities of the section; own: the other keys that it may have, ended by NULL. */
bool keys_read(struct reader *, enum section, const yaml_node_t *mapping, void *base,
	       const char *const *own);
/* That it has no keys but these, words with blanks between: `all` are everybody's, `own` those of
 * the kind of thing that it is. */
bool keys_only(struct reader *, const yaml_node_t *mapping, const char *all, const char *own,
	       const char *kind);
/* "anything" of a list of words; the words end with NULL. SIZE_MAX: failed. */
size_t keys_word(struct reader *, const yaml_node_t *, const char *const *words, const char *what);
/* Whether no pair before this one of the mapping has its key, a word. */
bool keys_once(struct reader *, const yaml_node_t *mapping, const yaml_node_pair_t *);
/* A whole number; what: "a lane". */
bool keys_whole(struct reader *, const yaml_node_t *, const char *what, unsigned least,
		unsigned most, unsigned *ret);
typedef void keys_pair_taken(void *ctx, unsigned key, unsigned value);
/* A mapping of whole numbers, each key once, from 0 to key_most, which is below 32; NULL is an
 * empty one. */
bool keys_pairs(struct reader *, const yaml_node_t *mapping, const char *name, const char *key,
		unsigned key_most, const char *value, unsigned value_least, unsigned value_most,
		void *ctx, keys_pair_taken *);
/* A mapping, a list, a single value; NULL is none of these. */
bool keys_is(struct reader *, const yaml_node_t *, yaml_node_type_t, const char *what);
size_t keys_count(const yaml_node_t *list);
yaml_node_t *keys_element(struct reader *, const yaml_node_t *list, size_t i); /* NULL: no more */

#endif
