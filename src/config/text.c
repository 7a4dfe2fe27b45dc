/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Documents as text. They are written as nvmetcli writes them (keys in order, two spaces a step,
 * no bytes beyond ASCII), so that a file that it wrote is the same, byte for byte, when it is
 * written again.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/wiped.h"
#include "config/config.h"

#define WORD_MAX 510 /* of which no more is left behind in memory; a key is shorter */

/* --- reading ---------------------------------------------------------------------------------
 */

static void tell_place(const char *text, size_t at, const char *what, char *why, size_t room)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < at; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	snprintf(why, room, "line %zu, column %zu: %s", line, column, what);
}

static bool only_space(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", text[i]) || !text[i])
			return false;
	return true;
}

/*
 * The tokener keeps what it read last in a buffer of its own. A long word before the document has
 * it grow to what no key needs more than, so that it does not move, and one behind overwrites it.
 */
static void fill_buffer(struct json_tokener *tok)
{
	char word[WORD_MAX + 2];

	memset(word, 'x', sizeof(word));
	word[0] = word[sizeof(word) - 1] = '"';
	json_tokener_reset(tok);
	json_object_put(json_tokener_parse_ex(tok, word, sizeof(word)));
	json_tokener_reset(tok);
}

static int parse(const char *text, size_t len, size_t most, int depth, struct json_object **ret,
		 char *why, size_t room)
{
	struct json_tokener *tok;
	enum json_tokener_error error;
	size_t end;

	*ret = NULL;
	if (len > most) {
		snprintf(why, room, "it has more than %zu bytes", most);
		return -EINVAL;
	}
	tok = json_tokener_new_ex(depth);
	if (!tok) {
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
					    JSON_TOKENER_ALLOW_TRAILING_CHARS);
	fill_buffer(tok);
	*ret = json_tokener_parse_ex(tok, text, (int)len);
	error = json_tokener_get_error(tok);
	end = json_tokener_get_parse_end(tok);
	fill_buffer(tok);
	json_tokener_free(tok);
	if (error == json_tokener_continue) {
		tell_place(text, len, "it ends before the document does", why, room);
	} else if (error != json_tokener_success) {
		tell_place(text, end, json_tokener_error_desc(error), why, room);
	} else if (!only_space(text + end, len - end)) {
		tell_place(text, end, "there is more behind the end of the document", why, room);
	} else if (!json_object_is_type(*ret, json_type_object)) {
		snprintf(why, room, "it is no object: { \"subsystems\": ..., \"ports\": ... }");
	} else {
		return 0;
	}
	config_drop(*ret);
	*ret = NULL;
	return -EINVAL;
}

int config_parse_text(const char *text, size_t len, struct json_object **ret, char *why,
		      size_t room)
{
	return parse(text, len, CONFIG_BYTES_MAX, CONFIG_DEPTH_MAX, ret, why, room);
}

int config_parse_answer(const char *text, size_t len, struct json_object **ret, char *why,
			size_t room)
{
	return parse(text, len, CONFIG_ANSWER_MAX, CONFIG_DEPTH_MAX + 1, ret, why, room);
}

/* --- writing ---------------------------------------------------------------------------------
 */

struct out {
	char *text;
	size_t len, room;
	bool failed;
	bool line; /* all of it in one */
};

static void put(struct out *o, const char *text, size_t len)
{
	if (o->failed)
		return;
	if (o->room - o->len <= len) {
		size_t room = 2 * (o->room + len) + 1024;
		char *more = wiped_grow(o->text, o->len, room);

		if (!more) {
			o->failed = true;
			return;
		}
		o->text = more;
		o->room = room;
	}
	memcpy(o->text + o->len, text, len);
	o->len += len;
	o->text[o->len] = '\0';
}

static void puts_to(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

static void put_step(struct out *o, int depth)
{
	if (o->line)
		return;
	puts_to(o, "\n");
	for (int i = 0; i < depth; i++)
		puts_to(o, "  ");
}

/* One character of UTF-8, which was checked when it came; how many bytes. */
static size_t take_char(const char *text, size_t left, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	if (n > left) {
		*ret = 0xfffd;
		return left;
	}
	*ret = n == 1 ? *p : *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		*ret = *ret << 6 | (p[i] & 0x3f);
	return n;
}

static void put_unit(struct out *o, uint32_t unit)
{
	char escape[8];

	snprintf(escape, sizeof(escape), "\\u%04x", unit & 0xffff);
	puts_to(o, escape);
}

static void put_char(struct out *o, uint32_t c)
{
	static const char marks[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
	const char *mark = c && c < 0x80 ? strchr(marks, (int)c) : NULL;
	char plain = (char)c;

	if (mark) {
		puts_to(o, "\\");
		put(o, &names[mark - marks], 1);
	} else if (c >= 0x10000) {
		put_unit(o, 0xd7c0 + (c >> 10));
		put_unit(o, 0xdc00 | (c & 0x3ff));
	} else if (c < ' ' || c > '~' + 1) {
		put_unit(o, c);
	} else {
		put(o, &plain, 1);
	}
}

static void put_string(struct out *o, const char *text, size_t len)
{
	puts_to(o, "\"");
	for (size_t i = 0; i < len;) {
		uint32_t c;

		i += take_char(text + i, len - i, &c);
		put_char(o, c);
	}
	puts_to(o, "\"");
}

static void put_value(struct out *o, struct json_object *v, int depth);

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_object(struct out *o, struct json_object *v, int depth)
{
	size_t n = (size_t)json_object_object_length(v), i = 0;
	const char **keys = calloc(n + 1, sizeof(*keys));

	if (!keys) {
		o->failed = true;
		return;
	}
	json_object_object_foreach(v, key, member)
	{
		(void)member;
		keys[i++] = key;
	}
	qsort(keys, n, sizeof(*keys), by_name);
	puts_to(o, "{");
	for (i = 0; i < n; i++) {
		puts_to(o, i ? "," : "");
		put_step(o, depth + 1);
		put_string(o, keys[i], strlen(keys[i]));
		puts_to(o, ": ");
		put_value(o, json_object_object_get(v, keys[i]), depth + 1);
	}
	if (n)
		put_step(o, depth);
	puts_to(o, "}");
	free(keys);
}

static void put_array(struct out *o, struct json_object *v, int depth)
{
	size_t n = json_object_array_length(v);

	puts_to(o, "[");
	for (size_t i = 0; i < n; i++) {
		puts_to(o, i ? "," : "");
		put_step(o, depth + 1);
		put_value(o, json_object_array_get_idx(v, i), depth + 1);
	}
	if (n)
		put_step(o, depth);
	puts_to(o, "]");
}

/* The depth is bounded where documents are read. */
static void put_value(struct out *o, struct json_object *v, int depth)
{
	switch (json_object_get_type(v)) {
	case json_type_object:
		put_object(o, v, depth);
		break;
	case json_type_array:
		put_array(o, v, depth);
		break;
	case json_type_string:
		put_string(o, json_object_get_string(v), (size_t)json_object_get_string_len(v));
		break;
	default:
		puts_to(o, v ? json_object_to_json_string(v) : "null");
	}
}

static char *finish(struct out *o, struct json_object *doc)
{
	put_value(o, doc, 0);
	puts_to(o, "\n");
	if (!o->failed)
		return o->text;
	wiped_free(o->text, o->len);
	return NULL;
}

char *config_text(struct json_object *doc)
{
	struct out o = {0};

	return finish(&o, doc);
}

char *config_line(struct json_object *doc)
{
	struct out o = {.line = true};

	return finish(&o, doc);
}
