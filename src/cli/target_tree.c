/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/target_tree.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/text.h"
#include "cli/output.h"
#include "config/config.h"
#include "config/edit.h"

#define DEPTH_MAX 5
#define INFO_MAX  1024

/* What is drawn, or only measured. */
struct tree {
	struct json_object *doc, *namespaces;
	bool colour, paths, measuring;
	int width;	      /* of the names, with what is before them */
	bool more[DEPTH_MAX]; /* at each depth: another follows */
	int depth;
};

static struct json_object *get(struct json_object *obj, const char *key)
{
	struct json_object *v = NULL;

	return json_object_is_type(obj, json_type_object) && json_object_object_get_ex(obj, key, &v)
		       ? v
		       : NULL;
}

static const char *text_of(struct json_object *v)
{
	return v ? json_object_get_string(v) : "";
}

/* --- what stands beside a name ----------------------------------------------------------------
 *
 * As nvmetcli shows it: attributes of the first group, as device.path and addr.traddr, by their
 * keys alone. Those of others would be taken for them, or for the object's own.
 */

static void add(char *info, const char *fmt, ...) printf_like(2, 3);

static void add(char *info, const char *fmt, ...)
{
	size_t n = strlen(info);
	va_list ap;

	n += (size_t)snprintf(info + n, INFO_MAX - n, "%s", n ? ", " : "");
	va_start(ap, fmt);
	if (n < INFO_MAX)
		vsnprintf(info + n, INFO_MAX - n, fmt, ap);
	va_end(ap);
}

static bool is_first_group(enum object_kind kind, const char *group)
{
	const char *groups = object_types[kind].groups;
	size_t n = strlen(group);

	return strncmp(groups, group, n) == 0 && (!groups[n] || groups[n] == ' ');
}

static void add_attributes(const struct object_path *path, struct json_object *obj, char *info)
{
	char full[64];
	size_t at;

	for (unsigned int i = 0; edit_attribute(path->kind, i, full, &at); i++) {
		struct json_object *v;

		if (!at)
			continue; /* its number; whether it is enabled comes last */
		full[at - 1] = '\0';
		v = get(get(obj, full), full + at);
		if (*text_of(v) && is_first_group(path->kind, full))
			add(info, "%s=%s", full + at, text_of(v));
		else if (*text_of(v))
			add(info, "%s.%s=%s", full, full + at, text_of(v));
	}
}

static void add_live(const struct tree *t, const struct object_path *path, char *info)
{
	size_t n = config_length(t->namespaces);

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(t->namespaces, i);
		char size[32];

		if (strcmp(text_of(get(o, "nqn")), path->owner) != 0 ||
		    strcmp(text_of(get(o, "nsid")), path->name) != 0)
			continue;
		add(info, "%s in %s-byte blocks",
		    text_bytes(size, sizeof(size), json_object_get_uint64(get(o, "bytes"))),
		    text_of(get(o, "block_size")));
		if (json_object_get_boolean(get(o, "read_only")))
			add(info, "read-only");
	}
}

static void describe(const struct tree *t, const struct object_path *path, struct json_object *obj,
		     char info[INFO_MAX])
{
	const char *enable;

	info[0] = '\0';
	if (path->list || path->kind == OBJECT_ROOT)
		return;
	add_attributes(path, obj, info);
	if (path->kind != OBJECT_NS && path->kind != OBJECT_REFERRAL)
		return;
	if (path->kind == OBJECT_NS)
		add_live(t, path, info);
	enable = text_of(get(obj, "enable"));
	add(info, "%s",
	    strcmp(enable, "1") == 0 || strcmp(enable, "true") == 0 ? "ENABLED" : "DISABLED");
}

/* --- lines ------------------------------------------------------------------------------------ */

static void put_line(struct tree *t, const struct object_path *path, struct json_object *obj)
{
	char lead[4 * DEPTH_MAX + 4] = "", name[OBJECT_NAME_MAX], info[INFO_MAX];
	int width;

	snprintf(name, sizeof(name), "%s",
		 path->kind == OBJECT_ROOT ? "/"
		 : path->list		   ? object_types[path->kind].list
					   : path->name);
	text_tame(name);
	for (int i = 0; i < t->depth; i++)
		strcat(lead, i && t->more[i] ? "| " : "  ");
	strcat(lead, "o- ");
	width = (int)(strlen(lead) + strlen(name));
	if (t->measuring) {
		t->width = max_of(t->width, width);
		return;
	}
	describe(t, path, obj, info);
	text_tame(info);
	printf("%s%s%s%s", lead, t->colour ? path->list ? "\033[1m" : "\033[1;36m" : "", name,
	       t->colour ? "\033[0m" : "");
	if (*info) {
		printf(" %s", t->colour ? "\033[2m" : "");
		for (int i = width; i < t->width + 2; i++)
			putchar('.');
		printf("%s [%s]", t->colour ? "\033[0m" : "", info);
	}
	putchar('\n');
}

static void put(struct tree *t, const struct object_path *path, struct json_object *obj);

static void put_elements(struct tree *t, const struct object_path *path, struct json_object *list)
{
	size_t n = config_length(list);

	for (size_t i = 0; i < n; i++) {
		struct json_object *obj = json_object_array_get_idx(list, i);
		struct object_path p = *path;

		p.list = false;
		snprintf(p.name, sizeof(p.name), "%s", object_name(path->kind, obj));
		t->more[t->depth] = i + 1 < n;
		put(t, &p, obj);
	}
}

static void put_lists(struct tree *t, const struct object_path *path, struct json_object *obj)
{
	int left = 0;

	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++)
		left += object_types[k].owner == path->kind;
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++) {
		struct object_path p = {.kind = (enum object_kind)k, .list = true};

		if (object_types[k].owner != path->kind)
			continue;
		memcpy(p.owner, path->name, sizeof(p.owner));
		t->more[t->depth] = --left;
		put(t, &p, get(obj, object_types[k].list));
	}
}

/* An object, and what is in it. */
static void put(struct tree *t, const struct object_path *path, struct json_object *obj)
{
	char text[OBJECT_PATH_MAX];

	if (t->paths) {
		object_path_text(path, text);
		text_tame(text);
		puts(text);
	} else {
		put_line(t, path, obj);
	}
	t->depth++;
	if (path->list)
		put_elements(t, path, obj);
	else
		put_lists(t, path, obj);
	t->depth--;
}

/* A list that is left out is empty. */
static bool is_there(struct json_object *doc, const struct object_path *path)
{
	const struct object_path owner = object_owner(path);

	return object_find(doc, path) || (path->list && object_find(doc, &owner));
}

bool target_tree(struct json_object *doc, struct json_object *namespaces,
		 const struct object_path *path, bool colour)
{
	struct tree t = {.doc = doc, .namespaces = namespaces, .colour = colour};

	if (!is_there(doc, path))
		return false;
	t.measuring = true;
	put(&t, path, object_find(doc, path));
	t.measuring = false;
	put(&t, path, object_find(doc, path));
	return true;
}

bool target_paths(struct json_object *doc, const struct object_path *path)
{
	struct tree t = {.doc = doc, .paths = true};

	if (!is_there(doc, path))
		return false;
	put(&t, path, object_find(doc, path));
	return true;
}
