/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/scenario/keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/spelling.h"
#include "fabric/scenario/quantity.h"
#include "fabric/scenario/scenario.h"

enum type { TYPE_U64, TYPE_U32, TYPE_U8, TYPE_INT, TYPE_REAL, TYPE_PPM, TYPE_PPB, TYPE_HEADROOM };

#define QUANTITY_ANY (QUANTITY_PART + 1) /* of which kind, the figure says */

static const struct key {
	enum section section;
	const char *name;
	unsigned quantity;
	enum type type;
	size_t offset;
	double least, most;
	const char *normally;
} keys[] = {
#define X(section, name, quantity, type, of, field, least, most, normally, text) \
	{SECTION_##section,                                                      \
	 name,                                                                   \
	 QUANTITY_##quantity,                                                    \
	 TYPE_##type,                                                            \
	 offsetof(of, field),                                                    \
	 least,                                                                  \
	 most,                                                                   \
	 normally},
#include "fabric/scenario/keys.def"
#undef X
};

bool keys_fail(struct reader *r, const yaml_node_t *node, const char *fmt, ...)
{
	size_t at = 0;
	va_list ap;
	int n;

	if (r->failed)
		return false;
	r->failed = true;
	if (node)
		n = snprintf(r->err, r->err_len, "%s:%zu: ", r->name, node->start_mark.line + 1);
	else
		n = snprintf(r->err, r->err_len, "%s: ", r->name);
	if (n > 0)
		at = min_of((size_t)n, r->err_len);
	va_start(ap, fmt);
	vsnprintf(r->err + at, r->err_len - at, fmt, ap);
	va_end(ap);
	return false;
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static const char *text_of(const yaml_node_t *n)
{
	return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

yaml_node_t *keys_find(struct reader *r, const yaml_node_t *m, const char *name)
{
	if (!m || m->type != YAML_MAPPING_NODE)
		return NULL;
	for (const yaml_node_pair_t *p = m->data.mapping.pairs.start; p < m->data.mapping.pairs.top;
	     p++) {
		const char *key = text_of(yaml_document_get_node(&r->document, p->key));

		if (key && !strcmp(key, name))
			return yaml_document_get_node(&r->document, p->value);
	}
	return NULL;
}

bool keys_is(struct reader *r, const yaml_node_t *n, yaml_node_type_t type, const char *what)
{
	static const char *const words[] = {
		[YAML_SCALAR_NODE] = "a single value",
		[YAML_SEQUENCE_NODE] = "a list",
		[YAML_MAPPING_NODE] = "keys with values",
	};

	if (n->type == type)
		return true;
	return keys_fail(r, n, "%s takes %s", what, words[type]);
}

bool keys_once(struct reader *r, const yaml_node_t *m, const yaml_node_pair_t *p)
{
	const yaml_node_t *at = yaml_document_get_node(&r->document, p->key);

	return keys_find(r, m, text_of(at)) == yaml_document_get_node(&r->document, p->value) ||
	       keys_fail(r, at, "'%s' stands here twice", text_of(at));
}

const char *keys_text(struct reader *r, const yaml_node_t *m, const char *name)
{
	const yaml_node_t *n = keys_find(r, m, name);

	return n && keys_is(r, n, YAML_SCALAR_NODE, name) ? text_of(n) : NULL;
}

size_t keys_count(const yaml_node_t *list)
{
	return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

yaml_node_t *keys_element(struct reader *r, const yaml_node_t *list, size_t i)
{
	const yaml_node_item_t *item = list->data.sequence.items.start + i;

	return item < list->data.sequence.items.top ? yaml_document_get_node(&r->document, *item)
						    : NULL;
}

size_t keys_word(struct reader *r, const yaml_node_t *n, const char *const *words, const char *what)
{
	const char *text = text_of(n);
	char all[512] = "";
	size_t at = 0;

	for (size_t i = 0; text && words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	for (size_t i = 0; words[i] && at < sizeof(all); i++)
		at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", words[i]);
	keys_fail(r, n, "%s is one of %s, not '%s'", what, all, text ? text : "…");
	return SIZE_MAX;
}

/* ---- quantities ------------------------------------------------------------------------------ */

static bool parse(const struct key *k, const char *text, double *ret)
{
	if (k->quantity != QUANTITY_ANY)
		return quantity_parse((enum quantity)k->quantity, text, ret);
	/* A figure is in its own unit; whoever writes one may say another. */
	for (unsigned q = 0; q < QUANTITY_ANY; q++)
		if (quantity_parse((enum quantity)q, text, ret)) {
			if (q == QUANTITY_RATE)
				*ret /= 1000; /* Gb/s */
			if (q == QUANTITY_TIME)
				*ret /= 1e3; /* us */
			return true;
		}
	return false;
}

static void store(const struct key *k, double v, void *base)
{
	void *at = (char *)base + k->offset;

	switch (k->type) {
	case TYPE_U64:
	case TYPE_HEADROOM:
		*(uint64_t *)at = (uint64_t)(v + .5);
		break;
	case TYPE_U32:
		*(uint32_t *)at = (uint32_t)(v + .5);
		break;
	case TYPE_U8:
		*(uint8_t *)at = (uint8_t)(v + .5);
		break;
	case TYPE_INT:
		*(int *)at = (int)lround(v);
		break;
	case TYPE_REAL:
		*(double *)at = v;
		break;
	case TYPE_PPM:
		*(uint32_t *)at = (uint32_t)(v * 1e6 + .5);
		break;
	case TYPE_PPB:
		*(uint32_t *)at = (uint32_t)(v * 1e9 + .5);
		break;
	}
}

void keys_defaults(enum section s, void *base)
{
	double v;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].section == s && keys[i].type != TYPE_HEADROOM &&
		    parse(&keys[i], keys[i].normally, &v))
			store(&keys[i], v, base);
}

static const struct key *key_find(enum section s, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].section == s && !strcmp(keys[i].name, name))
			return &keys[i];
	return NULL;
}

static bool is_among(const char *const *words, const char *word)
{
	for (; *words; words++)
		if (!strcmp(*words, word))
			return true;
	return false;
}

/* Among words with blanks between. */
static bool has_word(const char *words, const char *word)
{
	const size_t len = strlen(word);

	for (const char *w = words; (w = strstr(w, word)); w++)
		if ((w == words || w[-1] == ' ') && (w[len] == ' ' || !w[len]))
			return true;
	return false;
}

/* What a kind does not heed is not left standing as if it did. */
bool keys_only(struct reader *r, const yaml_node_t *m, const char *all, const char *own,
	       const char *kind)
{
	if (!m)
		return true;
	for (const yaml_node_pair_t *p = m->data.mapping.pairs.start; p < m->data.mapping.pairs.top;
	     p++) {
		const yaml_node_t *at = yaml_document_get_node(&r->document, p->key);
		const char *name = (const char *)at->data.scalar.value;

		if (!has_word(all, name) && !has_word(own, name))
			return keys_fail(r, at, "'%s' is nothing to '%s', which has %s", name, kind,
					 *own ? own : "no such keys");
	}
	return true;
}

/* The nearest name that the section has, for who has misspelt one. */
static const char *nearest(enum section s, const char *const *own, const char *to)
{
	const char *best = NULL;
	size_t least = 4;

	if (strlen(to) > SPELLING_MAX)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].section == s && spelling_distance(keys[i].name, to) < least) {
			best = keys[i].name;
			least = spelling_distance(best, to);
		}
	for (; *own; own++)
		if (spelling_distance(*own, to) < least) {
			best = *own;
			least = spelling_distance(best, to);
		}
	return best;
}

static bool unknown(struct reader *r, enum section s, const yaml_node_t *at, const char *const *own,
		    const char *name)
{
	const char *meant = nearest(s, own, name);

	if (meant)
		return keys_fail(r, at, "there is no key '%s' here; is '%s' meant?", name, meant);
	return keys_fail(r, at, "there is no key '%s' here: see weft-scenario(5)", name);
}

static bool read_one(struct reader *r, const struct key *k, const yaml_node_t *n, void *base)
{
	const char *text = text_of(n);
	double v;

	if (!keys_is(r, n, YAML_SCALAR_NODE, k->name))
		return false;
	if (!parse(k, text, &v))
		return keys_fail(r, n, "%s takes %s, not '%s'", k->name,
				 k->quantity == QUANTITY_ANY
					 ? "a number in the figure's unit"
					 : quantity_like((enum quantity)k->quantity),
				 text);
	if (k->quantity == QUANTITY_NUMBER && v != floor(v))
		return keys_fail(r, n, "%s takes a whole number, not '%s'", k->name, text);
	if (v < k->least || v > k->most)
		return keys_fail(r, n, "%s: '%s' is too %s", k->name, text,
				 v < k->least ? "little" : "much");
	store(k, v, base);
	return true;
}

bool keys_read(struct reader *r, enum section s, const yaml_node_t *m, void *base,
	       const char *const *own)
{
	if (!m)
		return true;
	if (m->type != YAML_MAPPING_NODE)
		return keys_fail(r, m, "here are to be keys with values");
	for (const yaml_node_pair_t *p = m->data.mapping.pairs.start; p < m->data.mapping.pairs.top;
	     p++) {
		const yaml_node_t *at = yaml_document_get_node(&r->document, p->key);
		const char *name = text_of(at);
		const struct key *k;

		if (!name)
			return keys_fail(r, at, "a key is a word");
		if (!keys_once(r, m, p))
			return false;
		k = key_find(s, name);
		if (!k && !is_among(own, name))
			return unknown(r, s, at, own, name);
		if (k && k->type != TYPE_HEADROOM && !is_among(own, name) &&
		    !read_one(r, k, yaml_document_get_node(&r->document, p->value), base))
			return false;
	}
	return true;
}

bool keys_whole(struct reader *r, const yaml_node_t *n, const char *what, unsigned least,
		unsigned most, unsigned *ret)
{
	const char *text = text_of(n);
	double v;

	if (!text || !quantity_parse(QUANTITY_NUMBER, text, &v) || !(v >= least && v <= most) ||
	    v != floor(v))
		return keys_fail(r, n, "%s is a number from %u to %u, not '%s'", what, least, most,
				 text ? text : "…");
	*ret = (unsigned)v;
	return true;
}

bool keys_pairs(struct reader *r, const yaml_node_t *m, const char *name, const char *key,
		unsigned key_most, const char *value, unsigned value_least, unsigned value_most,
		void *ctx, keys_pair_taken *take)
{
	uint32_t seen = 0;

	if (!m)
		return true;
	if (!keys_is(r, m, YAML_MAPPING_NODE, name))
		return false;
	for (const yaml_node_pair_t *p = m->data.mapping.pairs.start; p < m->data.mapping.pairs.top;
	     p++) {
		const yaml_node_t *at = yaml_document_get_node(&r->document, p->key);
		unsigned k, v;

		if (!keys_whole(r, at, key, 0, key_most, &k) ||
		    !keys_whole(r, yaml_document_get_node(&r->document, p->value), value,
				value_least, value_most, &v))
			return false;
		if (seen >> k & 1)
			return keys_fail(r, at, "%s stands here twice: %u", key, k);
		seen |= 1u << k;
		take(ctx, k, v);
	}
	return true;
}
