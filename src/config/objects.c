/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/utf8.h"
#include "config/keys.h"
#include "wire/nvme.h"

const struct object_type object_types[OBJECT_KINDS] = {
	[OBJECT_ROOT] = {.what = "target", .groups = "discovery", .path = "/"},
#define X(kind, owner_kind, list_key, id_key, is_number, group_words, name, path_text) \
	[OBJECT_##kind] = {.owner = OBJECT_##owner_kind,                               \
			   .list = (list_key),                                         \
			   .id = (id_key),                                             \
			   .number = (is_number),                                      \
			   .groups = (group_words),                                    \
			   .what = (name),                                             \
			   .path = (path_text)},
#include "config/objects.def"
#undef X
};

/* --- paths -----------------------------------------------------------------------------------
 */

bool object_text_valid(const char *text)
{
	uint32_t c;

	for (size_t n; *text; text += n) {
		n = utf8_char(text, &c);
		if (!n || c < ' ' || (c >= 0x7f && c < 0xa0))
			return false;
	}
	return true;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Up to the next slash; false: it is too long, or has a zero in it. */
static bool take_word(const char **at, char ret[OBJECT_NAME_MAX])
{
	size_t n = 0;
	const char *p = *at;

	while (*p && *p != '/') {
		char c = *p++;

		if (c == '%' && is_hex(p[0]) && is_hex(p[1])) {
			const char digits[] = {p[0], p[1], '\0'};

			c = (char)strtoul(digits, NULL, 16);
			p += 2;
		}
		if (!c || n == OBJECT_NAME_MAX - 1) {
			ret[n] = '\0';
			return false;
		}
		ret[n++] = c;
	}
	ret[n] = '\0';
	while (*p == '/')
		p++;
	*at = p;
	return true;
}

static enum object_kind find_kind(enum object_kind owner, const char *list)
{
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++)
		if (object_types[k].owner == owner && strcmp(object_types[k].list, list) == 0)
			return (enum object_kind)k;
	return OBJECT_ROOT;
}

/* The lists that an object of this kind has, as words. */
static void tell_lists(enum object_kind owner, char *ret, size_t room)
{
	size_t n = 0;

	snprintf(ret, room, "nothing");
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS && n < room; k++)
		if (object_types[k].owner == owner)
			n += (size_t)snprintf(ret + n, room - n, "%s%s", n ? ", " : "",
					      object_types[k].list);
}

/* A number is written as it is in the document, a name as text. */
static bool name_valid(enum object_kind kind, char name[OBJECT_NAME_MAX])
{
	unsigned long v;
	char *end;

	if (!object_types[kind].number)
		return *name && object_text_valid(name);
	errno = 0;
	v = strtoul(name, &end, 10);
	if (*name < '0' || *name > '9' || *end || errno || v > 0xffffffff)
		return false;
	snprintf(name, OBJECT_NAME_MAX, "%lu", v);
	return true;
}

int object_path_name(struct object_path *path, const char *name, char *why, size_t room)
{
	if (config_is_key(name)) {
		snprintf(why, room, "'%.60s' is a key, and no %s of a %s", name,
			 object_types[path->kind].number ? "number" : "name",
			 object_types[path->kind].what);
		return -EINVAL;
	}
	if (strlen(name) < OBJECT_NAME_MAX)
		strcpy(path->name, name);
	if (!object_types[path->kind].number && path->kind != OBJECT_REFERRAL &&
	    strlen(name) > NVME_NQN_MAX) {
		snprintf(why, room, "'%.60s...': a name of %zu characters; it may have at most %d",
			 name, strlen(name), NVME_NQN_MAX);
		return -EINVAL;
	}
	if (strlen(name) >= OBJECT_NAME_MAX || !name_valid(path->kind, path->name)) {
		snprintf(why, room, "'%.60s' is no %s of a %s", name,
			 object_types[path->kind].number ? "number" : "name",
			 object_types[path->kind].what);
		return -EINVAL;
	}
	path->list = false;
	return 0;
}

/* One step further: into a list, and to an element. */
static int take_step(const char **at, const char *text, struct object_path *p, char *why,
		     size_t room)
{
	char word[OBJECT_NAME_MAX], lists[80];
	enum object_kind kind;

	tell_lists(p->kind, lists, sizeof(lists));
	kind = take_word(at, word) ? find_kind(p->kind, word) : OBJECT_ROOT;
	if (kind == OBJECT_ROOT) {
		snprintf(why, room, "%.200s: there is no '%.60s' in a %s; there is: %s", text, word,
			 object_types[p->kind].what, lists);
		return -EINVAL;
	}
	memcpy(p->owner, p->name, sizeof(p->owner));
	p->name[0] = '\0';
	p->kind = kind;
	p->list = !**at;
	if (p->list)
		return 0;
	if (!take_word(at, word)) {
		snprintf(why, room,
			 "%.200s: a name in it is too long, or none; an NQN has at most %d "
			 "characters",
			 text, NVME_NQN_MAX);
		return -EINVAL;
	}
	return object_path_name(p, word, why, room);
}

int object_path_parse(const char *text, struct object_path *ret, char *why, size_t room)
{
	const char *at = text;
	int error = 0;

	*ret = (struct object_path){.kind = OBJECT_ROOT};
	if (*at != '/') {
		snprintf(why, room, "'%.100s' is no path; /subsystems, /hosts and /ports are",
			 text);
		return -EINVAL;
	}
	while (*at == '/')
		at++;
	while (*at && !error)
		error = take_step(&at, text, ret, why, room);
	return error;
}

static size_t put_word(char *ret, size_t room, const char *word)
{
	size_t n = 0;

	for (; *word && n + 4 < room; word++) {
		if (*word == '/' || *word == '%')
			n += (size_t)snprintf(ret + n, room - n, "%%%02X", (unsigned char)*word);
		else
			ret[n++] = *word;
	}
	ret[n] = '\0';
	return n;
}

void object_path_text(const struct object_path *path, char ret[OBJECT_PATH_MAX])
{
	const size_t room = OBJECT_PATH_MAX;
	const struct object_type *t = &object_types[path->kind];
	size_t n = 0;

	if (path->kind == OBJECT_ROOT) {
		snprintf(ret, room, "/");
		return;
	}
	if (t->owner != OBJECT_ROOT) {
		n = (size_t)snprintf(ret, room, "/%s/", object_types[t->owner].list);
		n += put_word(ret + n, room - n, path->owner);
	}
	n += (size_t)snprintf(ret + n, room - n, "/%s", t->list);
	if (!path->list) {
		ret[n++] = '/';
		put_word(ret + n, room - n, path->name);
	}
}

void object_place(const struct object_path *path, char ret[OBJECT_PLACE_MAX])
{
	const struct object_type *t = &object_types[path->kind];
	int n = 0;

	if (path->kind == OBJECT_ROOT) {
		strcpy(ret, "the document");
		return;
	}
	if (t->owner != OBJECT_ROOT)
		n = snprintf(ret, OBJECT_PLACE_MAX, "%s[%s].", object_types[t->owner].list,
			     path->owner);
	n += snprintf(ret + n, OBJECT_PLACE_MAX - (size_t)n, "%s", t->list);
	if (!path->list)
		snprintf(ret + n, OBJECT_PLACE_MAX - (size_t)n, "[%s]", path->name);
}

struct object_path object_owner(const struct object_path *path)
{
	struct object_path o = {.kind = object_types[path->kind].owner};

	memcpy(o.name, path->owner, sizeof(o.name));
	return o;
}

/* --- finding ---------------------------------------------------------------------------------
 */

const char *object_name(enum object_kind kind, struct json_object *obj)
{
	const char *id = object_types[kind].id;

	if (!id)
		return json_object_is_type(obj, json_type_string) ? json_object_get_string(obj)
								  : "";
	return json_object_is_type(obj, json_type_object) ? member_text(obj, id) : "";
}

static bool is_called(enum object_kind kind, struct json_object *obj, const char *name)
{
	const char *own = object_name(kind, obj);

	if (!*own || !object_types[kind].number)
		return *own && strcmp(own, name) == 0;
	return strtoul(own, NULL, 0) == strtoul(name, NULL, 10);
}

struct json_object *object_list(struct json_object *doc, const struct object_path *path,
				int *ret_index)
{
	const struct object_path owner = object_owner(path);
	struct json_object *in = object_find(doc, &owner);
	struct json_object *list =
		json_object_is_type(in, json_type_object) && object_types[path->kind].list
			? member(in, object_types[path->kind].list)
			: NULL;
	size_t n = config_length(list);

	*ret_index = -1;
	for (size_t i = 0; i < n && *ret_index < 0 && !path->list; i++)
		if (is_called(path->kind, json_object_array_get_idx(list, i), path->name))
			*ret_index = (int)i;
	return json_object_is_type(list, json_type_array) ? list : NULL;
}

struct json_object *object_find(struct json_object *doc, const struct object_path *path)
{
	struct json_object *list;
	int i;

	if (path->kind == OBJECT_ROOT)
		return doc;
	list = object_list(doc, path, &i);
	if (path->list)
		return list;
	return i < 0 ? NULL : json_object_array_get_idx(list, (size_t)i);
}

/* --- places ----------------------------------------------------------------------------------
 */

/* What an element is called in whatever list it is; NULL: it does not say. */
static const char *any_name(struct json_object *obj)
{
	static const char *const ids[] = {"nsid", "portid", "nqn", "name"};

	if (json_object_is_type(obj, json_type_string))
		return json_object_get_string(obj);
	for (size_t i = 0; json_object_is_type(obj, json_type_object) && i < ARRAY_SIZE(ids); i++) {
		struct json_object *v = member(obj, ids[i]);

		if (json_object_is_type(v, json_type_string) ||
		    json_object_is_type(v, json_type_int))
			return member_text(obj, ids[i]);
	}
	return NULL;
}

void object_name_places(struct json_object *doc, const char *text, char *ret, size_t room)
{
	size_t n = 0;

	while (*text && json_object_is_type(doc, json_type_object)) {
		const size_t len = strcspn(text, ".[: ");
		char key[64];
		unsigned long i;
		char *end;

		if (text[len] != '.' && text[len] != '[')
			break;
		snprintf(key, sizeof(key), "%.*s", (int)min_of(len, sizeof(key) - 1), text);
		doc = member(doc, key);
		n += (size_t)snprintf(ret + n, room - n, "%.*s", (int)len + 1, text);
		if (n >= room)
			return;
		text += len + 1;
		if (text[-1] == '.')
			continue;
		i = strtoul(text, &end, 10);
		doc = json_object_is_type(doc, json_type_array) ? json_object_array_get_idx(doc, i)
								: NULL;
		if (end == text || *end != ']' || !any_name(doc))
			break;
		n += (size_t)snprintf(ret + n, room - n, "%s]", any_name(doc));
		text = end + 1;
		if (n >= room)
			return;
		if (*text != '.')
			break;
		n += (size_t)snprintf(ret + n, room - n, ".");
		text++;
		if (n >= room)
			return;
	}
	snprintf(ret + n, room - n, "%s", text);
}
