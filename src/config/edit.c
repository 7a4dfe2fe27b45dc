/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/edit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "config/keys.h"

const struct edit_verb_type edit_verbs[EDIT_VERBS] = {
#define X(id, verb, args, text) [EDIT_##id] = {(verb), (args), (text)},
#include "config/verbs.def"
#undef X
};

static int fail(char *why, size_t room, const char *fmt, ...) printf_like(3, 4);

static int fail(char *why, size_t room, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, room, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* --- attributes ------------------------------------------------------------------------------
 */

/* Keys of an object itself, which are numbers. */
static const char *own_key(enum object_kind kind)
{
	return kind == OBJECT_PORT			      ? "portid"
	       : kind == OBJECT_NS || kind == OBJECT_REFERRAL ? "enable"
							      : NULL;
}

static enum section group_section(enum object_kind kind, const char *group, size_t len)
{
	static const struct {
		const char *group;
		enum section section;
	} of[] = {
		{"discovery", SECTION_DISCOVERY},
		{"dhchap", SECTION_DHCHAP},
		{"attr", SECTION_ATTR},
		{"device", SECTION_DEVICE},
		{"ana", SECTION_ANA},
		{"resv", SECTION_RESV},
		{"param", SECTION_PARAM},
	};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++)
		if (strlen(of[i].group) == len && strncmp(of[i].group, group, len) == 0)
			return of[i].section;
	return kind == OBJECT_REFERRAL ? SECTION_REFERRAL_ADDR : SECTION_ADDR;
}

bool edit_attribute(enum object_kind kind, unsigned int i, char ret[64], size_t *ret_key)
{
	const char *own = own_key(kind);

	*ret_key = 0;
	if (own && i == 0) {
		snprintf(ret, 64, "%s", own);
		return true;
	}
	i -= own != NULL;
	for (const char *g = object_types[kind].groups; *g;) {
		const size_t len = strcspn(g, " ");
		const enum section section = group_section(kind, g, len);
		unsigned int n = 0;

		for (; section_value(section, n); n++)
			if (n == i) {
				*ret_key = len + 1;
				snprintf(ret, 64, "%.*s.%s", (int)len, g,
					 section_value(section, n));
				return true;
			}
		i -= n;
		g += len + (g[len] == ' ');
	}
	return false;
}

/* A key as it was given, perhaps behind a group, is made a whole one. */
static bool find_attribute(enum object_kind kind, const char *group, const char *key, size_t len,
			   char ret[64])
{
	char want[64];
	size_t at;

	snprintf(want, sizeof(want), "%s%s%.*s", group ? group : "", group ? "." : "",
		 (int)min_of(len, sizeof(want)), key);
	for (unsigned int i = 0; edit_attribute(kind, i, ret, &at); i++)
		if (strcmp(ret, want) == 0 || strcmp(ret + at, want) == 0 ||
		    (strlen(ret) == len && strncmp(ret, key, len) == 0))
			return true;
	return false;
}

static bool is_group(enum object_kind kind, const char *word)
{
	char full[64];
	size_t at;

	for (unsigned int i = 0; edit_attribute(kind, i, full, &at); i++)
		if (at == strlen(word) + 1 && strncmp(full, word, at - 1) == 0)
			return true;
	return false;
}

static void tell_attributes(enum object_kind kind, char *ret, size_t room)
{
	char full[64];
	size_t n = 0, at;

	ret[0] = '\0';
	for (unsigned int i = 0; edit_attribute(kind, i, full, &at) && n < room; i++)
		n += (size_t)snprintf(ret + n, room - n, "%s%s", i ? ", " : "", full);
}

/* --- parsing ---------------------------------------------------------------------------------
 */

static int find_verb(const char *word, enum edit_verb *ret)
{
	for (int v = 0; v < EDIT_VERBS; v++)
		if (strcmp(edit_verbs[v].name, word) == 0) {
			*ret = (enum edit_verb)v;
			return 0;
		}
	if (strcmp(word, "delete") != 0) /* as nvmetcli says it */
		return -EINVAL;
	*ret = EDIT_REMOVE;
	return 0;
}

static int unknown_verb(const char *word, char *why, size_t room)
{
	char verbs[200];
	size_t n = 0;

	for (int v = 0; v < EDIT_VERBS; v++)
		n += (size_t)snprintf(verbs + n, sizeof(verbs) - n, "%s%s", v ? ", " : "",
				      edit_verbs[v].name);
	return fail(why, room, "'%.60s' is nothing to be done; there is: %s", word, verbs);
}

static bool takes_path(enum edit_verb v)
{
	return edit_verbs[v].arguments[0] == 'P' || v == EDIT_LS;
}

static int usage(const struct edit *e, char *why, size_t room)
{
	const struct edit_verb_type *v = &edit_verbs[e->verb];

	return fail(why, room, "it is: %s%s%s", v->name, *v->arguments ? " " : "", v->arguments);
}

/* What an edit is about, by the number of words behind its path. */
static int check_object(const struct edit *e, char *why, size_t room)
{
	const enum object_kind kind = e->path.kind;
	const char *verb = edit_verbs[e->verb].name;
	const bool whole = kind != OBJECT_ROOT && !e->path.list;

	switch (e->verb) {
	case EDIT_CREATE:
	case EDIT_REMOVE:
		if (whole || (e->verb == EDIT_CREATE && e->path.list && object_types[kind].number))
			return 0;
		return fail(why, room, "%s: which one? Its path is like %s", verb,
			    kind == OBJECT_ROOT ? "/subsystems/NQN" : object_types[kind].path);
	case EDIT_SET:
		if (!e->path.list && *object_types[kind].groups)
			return 0;
		return fail(why, room, "set: a %s%s has no attributes", object_types[kind].what,
			    e->path.list ? "s' list" : "");
	case EDIT_ENABLE:
	case EDIT_DISABLE:
		if (whole && (kind == OBJECT_NS || kind == OBJECT_REFERRAL))
			return 0;
		return fail(why, room,
			    "%s is for /subsystems/NQN/namespaces/NSID and "
			    "/ports/PORTID/referrals/NAME",
			    verb);
	case EDIT_RESIZE:
		if (whole && kind == OBJECT_NS)
			return 0;
		return fail(why, room, "resize is for /subsystems/NQN/namespaces/NSID");
	case EDIT_LS:
	case EDIT_CLEAR:
	case EDIT_SAVE:
	case EDIT_RESTORE:
	case EDIT_VERBS:
		break;
	}
	return 0;
}

static int check_attributes(const struct edit *e, char *why, size_t room)
{
	const char *group = NULL;
	char full[64], known[500];
	size_t pairs = 0;

	for (size_t i = 0; i < e->count; i++) {
		const char *word = e->words[i], *equals = strchr(word, '=');

		if (!equals && is_group(e->path.kind, word)) {
			group = word;
			continue;
		}
		tell_attributes(e->path.kind, known, sizeof(known));
		if (!equals)
			return fail(why, room, "'%.60s' is no KEY=VALUE; a %s has: %s", word,
				    object_types[e->path.kind].what, *known ? known : "none");
		if (!find_attribute(e->path.kind, group, word, (size_t)(equals - word), full))
			return fail(why, room, "'%.*s%s%.*s' is no attribute of a %s; there is: %s",
				    group ? 30 : 0, group ? group : "", group ? "." : "",
				    (int)min_of((size_t)(equals - word), (size_t)60), word,
				    object_types[e->path.kind].what, *known ? known : "none");
		pairs++;
	}
	return e->verb == EDIT_SET && !pairs ? usage(e, why, room) : 0;
}

static int check_words(const struct edit *e, char *why, size_t room)
{
	switch (e->verb) {
	case EDIT_CREATE:
	case EDIT_SET:
		return check_attributes(e, why, room);
	case EDIT_RESTORE:
		return e->count == 1 ? 0 : usage(e, why, room);
	case EDIT_RESIZE:
	case EDIT_SAVE:
		return e->count <= 1 ? 0 : usage(e, why, room);
	case EDIT_LS:
	case EDIT_REMOVE:
	case EDIT_ENABLE:
	case EDIT_DISABLE:
	case EDIT_CLEAR:
	case EDIT_VERBS:
		break;
	}
	return e->count ? usage(e, why, room) : 0;
}

/* "create NQN" behind the path of a list, as nvmetcli has it. */
static int take_name(struct edit *e, char *why, size_t room)
{
	if (!e->path.list || !e->count || (e->verb != EDIT_CREATE && e->verb != EDIT_REMOVE))
		return 0;
	if (object_types[e->path.kind].number && strchr(e->words[0], '='))
		return 0; /* a number is found for it */
	e->count--;
	return object_path_name(&e->path, *e->words++, why, room);
}

static int parse(const char *const *words, size_t count, struct edit *ret, char *why, size_t room)
{
	const char *path = NULL, *verb;
	int error;

	for (size_t i = 0; i < count; i++)
		if (!object_text_valid(words[i]))
			return fail(why, room,
				    "word %zu is no text: UTF-8, without control "
				    "characters",
				    i + 1);
	*ret = (struct edit){.path = {.kind = OBJECT_ROOT}};
	if (count && words[0][0] == '/') {
		path = *words++;
		count--;
	}
	if (!count)
		return fail(why, room, "a path alone is nothing to be done; `ls` shows it");
	if (count > EDIT_WORDS_MAX)
		return fail(why, room, "a command has at most %d words", EDIT_WORDS_MAX);
	verb = *words++;
	count--;
	if (find_verb(verb, &ret->verb) != 0)
		return unknown_verb(verb, why, room);
	if (!path && count && takes_path(ret->verb)) {
		path = *words++;
		count--;
	}
	ret->words = words;
	ret->count = count;
	if ((path && !takes_path(ret->verb)) ||
	    (!path && takes_path(ret->verb) && ret->verb != EDIT_LS))
		return usage(ret, why, room);
	error = path ? object_path_parse(path, &ret->path, why, room) : 0;
	if (!error)
		error = take_name(ret, why, room);
	if (!error)
		error = check_object(ret, why, room);
	return error ? error : check_words(ret, why, room);
}

/* A word that stands where another belongs may be a key. */
int edit_parse(const char *const *words, size_t count, struct edit *ret, char *why, size_t room)
{
	int error = parse(words, count, ret, why, room);

	if (error)
		config_mask_text(why);
	return error;
}

bool edit_changes(const struct edit *e)
{
	return e->verb != EDIT_LS && e->verb != EDIT_SAVE && e->verb != EDIT_RESTORE &&
	       (e->verb != EDIT_RESIZE || e->count);
}

/* --- editing ---------------------------------------------------------------------------------
 */

static struct json_object *text_of(const char *text)
{
	return json_object_new_string(text);
}

/* The member of that kind, made if it is missing. NULL: something else is there. */
static struct json_object *get_or_make(struct json_object *obj, const char *key, bool list)
{
	struct json_object *v = member(obj, key);

	if (v)
		return json_object_is_type(v, list ? json_type_array : json_type_object) ? v : NULL;
	v = list ? json_object_new_array() : json_object_new_object();
	if (v)
		json_object_object_add(obj, key, v);
	return v;
}

/* A config was read of the document: an object is one, if it is there. */
static struct json_object *find(struct json_object *doc, const struct object_path *path, char *why,
				size_t room)
{
	struct json_object *obj = object_find(doc, path);
	char place[OBJECT_PLACE_MAX], text[OBJECT_PATH_MAX];

	if (obj)
		return obj;
	object_place(path, place);
	object_path_text(path, text);
	fail(why, room, "%s: there is no such %s; `create %s` makes it", place,
	     object_types[path->kind].what, text);
	return NULL;
}

/* The lowest that no element has. */
static int find_number(struct object_path *path, struct json_object *list, char *why, size_t room)
{
	const unsigned long max = path->kind == OBJECT_NS ? CONFIG_NSID_MAX : 0xffff;
	const size_t n = config_length(list);
	bool *taken = calloc(n + 2, sizeof(*taken));
	unsigned long v = 1;

	if (!taken)
		return fail(why, room, "out of memory");
	for (size_t i = 0; i < n; i++) {
		v = strtoul(object_name(path->kind, json_object_array_get_idx(list, i)), NULL, 0);
		taken[v <= n ? v : 0] = true;
	}
	for (v = 1; taken[v];)
		v++;
	free(taken);
	if (v > max)
		return fail(why, room, "every number is taken");
	path->list = false;
	snprintf(path->name, sizeof(path->name), "%lu", v);
	return 0;
}

/* What the path's last word names has to be there, too. */
static int check_named(struct json_object *doc, const struct object_path *path, char *why,
		       size_t room)
{
	struct object_path named = {.kind = path->kind == OBJECT_ALLOWED ? OBJECT_HOST
									 : OBJECT_SUBSYS};
	char place[OBJECT_PLACE_MAX], text[OBJECT_PATH_MAX];

	if (object_types[path->kind].id)
		return 0;
	memcpy(named.name, path->name, sizeof(named.name));
	if (object_find(doc, &named))
		return 0;
	object_place(path, place);
	object_path_text(&named, text);
	return fail(why, room, "%s: there is no such %s; `create %s` makes it", place,
		    object_types[named.kind].what, text);
}

static int set_all(struct json_object *obj, const struct edit *e, char *why, size_t room);

/* What is nearly always so is not left to be told: a port has an address of one family, and the
 * usual number; what is told where it leads is wanted. */
static int set_usual(struct json_object *obj, const struct edit *e, char *why, size_t room)
{
	struct json_object *addr, *device;
	int error = set_all(obj, e, why, room);

	if (error)
		return error;
	addr = member(obj, "addr");
	device = member(obj, "device");
	if (addr && *member_text(addr, "traddr")) {
		const bool v6 = strchr(member_text(addr, "traddr"), ':');

		if (!*member_text(addr, "adrfam"))
			json_object_object_add(addr, "adrfam", text_of(v6 ? "ipv6" : "ipv4"));
		if (!*member_text(addr, "trsvcid"))
			json_object_object_add(addr, "trsvcid", text_of("4420"));
	}
	if (own_key(e->path.kind) && strcmp(own_key(e->path.kind), "enable") == 0 &&
	    !member(obj, "enable")) {
		const bool wanted = (device && *member_text(device, "path")) || addr;

		json_object_object_add(obj, "enable", json_object_new_int(wanted));
	}
	return 0;
}

/* With what nvmetcli's has of the same kind. */
static struct json_object *new_object(const struct object_path *path)
{
	const struct object_type *t = &object_types[path->kind];
	struct json_object *obj;

	if (!t->id)
		return text_of(path->name);
	obj = json_object_new_object();
	json_object_object_add(obj, t->id,
			       t->number ? json_object_new_int64(strtol(path->name, NULL, 10))
					 : text_of(path->name));
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++)
		if (object_types[k].owner == path->kind)
			(void)get_or_make(obj, object_types[k].list, true);
	if (path->kind == OBJECT_SUBSYS)
		json_object_object_add(get_or_make(obj, "attr", false), "allow_any_host",
				       text_of("0"));
	return obj;
}

static int create(struct json_object *doc, const struct edit *e, char made[OBJECT_PATH_MAX],
		  char *why, size_t room)
{
	const struct object_path owner_path = object_owner(&e->path);
	struct json_object *owner = find(doc, &owner_path, why, room), *list, *obj;
	struct edit named = *e;
	char place[OBJECT_PLACE_MAX];
	int i, error = 0;

	if (!owner)
		return -EINVAL;
	list = get_or_make(owner, object_types[e->path.kind].list, true);
	if (!list)
		return fail(why, room, "%s: a list belongs here", object_types[e->path.kind].list);
	if (e->path.list) {
		error = find_number(&named.path, list, why, room);
		if (error)
			return error;
		if (made)
			object_path_text(&named.path, made);
	}
	(void)object_list(doc, &named.path, &i);
	if (i >= 0) {
		object_place(&named.path, place);
		return fail(why, room, "%s: it is there already", place);
	}
	error = check_named(doc, &named.path, why, room);
	if (error)
		return error;
	obj = new_object(&named.path);
	json_object_array_add(list, obj);
	return object_types[e->path.kind].id ? set_usual(obj, &named, why, room) : 0;
}

/* Out of the lists of all that are of an owner's kind. */
static void unname(struct json_object *doc, enum object_kind owner, const char *key,
		   const char *name)
{
	struct json_object *owners = member(doc, object_types[owner].list);
	size_t n = config_length(owners);

	for (size_t i = 0; i < n; i++) {
		struct json_object *obj = json_object_array_get_idx(owners, i);
		struct json_object *list =
			json_object_is_type(obj, json_type_object) ? member(obj, key) : NULL;

		if (!json_object_is_type(list, json_type_array))
			continue;
		for (size_t k = json_object_array_length(list); k-- > 0;)
			if (strcmp(object_name(OBJECT_ALLOWED, json_object_array_get_idx(list, k)),
				   name) == 0)
				json_object_array_del_idx(list, k, 1);
	}
}

static int no_such(const struct object_path *path, char *why, size_t room)
{
	char place[OBJECT_PLACE_MAX];

	object_place(path, place);
	return fail(why, room, "%s: there is no such %s", place, object_types[path->kind].what);
}

static int remove_object(struct json_object *doc, const struct object_path *path, char *why,
			 size_t room)
{
	struct json_object *list;
	int i;

	list = object_list(doc, path, &i);
	if (i < 0)
		return no_such(path, why, room);
	if (path->kind == OBJECT_SUBSYS)
		unname(doc, OBJECT_PORT, "subsystems", path->name);
	if (path->kind == OBJECT_HOST)
		unname(doc, OBJECT_SUBSYS, "allowed_hosts", path->name);
	config_wipe(json_object_array_get_idx(list, (size_t)i));
	json_object_array_del_idx(list, (size_t)i, 1);
	return 0;
}

static int set_own(struct json_object *obj, const struct object_path *path, const char *key,
		   const char *value, char *why, size_t room)
{
	char place[OBJECT_PLACE_MAX], *end;
	unsigned long v = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || v > 0xffff) {
		object_place(path, place);
		return fail(why, room, "%s.%s: a number, not '%.40s'", place, key, value);
	}
	json_object_object_add(obj, key, json_object_new_int((int)v));
	return 0;
}

/* One attribute; without a value it is taken away. */
static int set_one(struct json_object *obj, const struct edit *e, const char *full,
		   const char *value, char *why, size_t room)
{
	const char *dot = strchr(full, '.');
	char group[64], place[OBJECT_PLACE_MAX];
	struct json_object *in;

	if (!dot)
		return set_own(obj, &e->path, full, value, why, room);
	snprintf(group, sizeof(group), "%.*s", (int)(dot - full), full);
	in = get_or_make(obj, group, false);
	if (!in) {
		object_place(&e->path, place);
		return fail(why, room, "%s.%s: an object belongs here", place, group);
	}
	config_wipe(member(in, dot + 1)); /* it may be a key */
	if (*value)
		json_object_object_add(in, dot + 1, text_of(value));
	else
		json_object_object_del(in, dot + 1);
	return 0;
}

static int set_all(struct json_object *obj, const struct edit *e, char *why, size_t room)
{
	const char *group = NULL;
	int error = 0;

	for (size_t i = 0; i < e->count && !error; i++) {
		const char *word = e->words[i], *equals = strchr(word, '=');
		char full[64];

		if (!equals)
			group = word;
		else if (find_attribute(e->path.kind, group, word, (size_t)(equals - word), full))
			error = set_one(obj, e, full, equals + 1, why, room);
	}
	return error;
}

/* Of a disk that is made: its size stands in its path. */
static int resize(struct json_object *obj, const struct edit *e, char *why, size_t room)
{
	struct json_object *device = member(obj, "device");
	const char *path =
		json_object_is_type(device, json_type_object) ? member_text(device, "path") : "";
	const bool made = strncmp(path, "mem:", 4) == 0 || strncmp(path, "null:", 5) == 0;
	const char *comma = strrchr(path, ',');
	char text[128], place[OBJECT_PLACE_MAX];

	if (!made) {
		object_place(&e->path, place);
		return fail(why, room,
			    "%s: %s has the size that it has: change it there (truncate -s %.20s), "
			    "and `resize` without a size has it looked at",
			    place, *path ? path : "it", e->words[0]);
	}
	snprintf(text, sizeof(text), "%.*s:%.60s%.20s", (int)strcspn(path, ":"), path, e->words[0],
		 comma ? comma : "");
	json_object_object_add(device, "path", text_of(text));
	return 0;
}

static void clear(struct json_object *doc)
{
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++) {
		if (object_types[k].owner != OBJECT_ROOT)
			continue;
		config_wipe(member(doc, object_types[k].list));
		json_object_object_add(doc, object_types[k].list, json_object_new_array());
	}
}

static int apply(struct json_object *doc, const struct edit *e, char ret_made[OBJECT_PATH_MAX],
		 char *why, size_t room)
{
	struct json_object *obj;

	if (ret_made)
		ret_made[0] = '\0';
	if (!edit_changes(e))
		return fail(why, room, "%s is no edit", edit_verbs[e->verb].name);
	if (e->verb == EDIT_CLEAR) {
		clear(doc);
		return 0;
	}
	if (e->verb == EDIT_CREATE)
		return create(doc, e, ret_made, why, room);
	if (e->verb == EDIT_REMOVE)
		return remove_object(doc, &e->path, why, room);
	obj = find(doc, &e->path, why, room);
	if (!obj)
		return -EINVAL;
	if (!json_object_is_type(obj, json_type_object))
		return no_such(&e->path, why, room);
	if (e->verb == EDIT_SET)
		return set_all(obj, e, why, room);
	if (e->verb == EDIT_RESIZE)
		return resize(obj, e, why, room);
	json_object_object_add(obj, "enable", json_object_new_int(e->verb == EDIT_ENABLE));
	return 0;
}

int edit_apply(struct json_object *doc, const struct edit *e, char ret_made[OBJECT_PATH_MAX],
	       char *why, size_t room)
{
	int error = apply(doc, e, ret_made, why, room);

	if (error)
		config_mask_text(why);
	return error;
}
