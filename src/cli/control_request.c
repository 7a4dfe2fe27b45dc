/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/control_request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/size.h"
#include "config/config.h"
#include "config/edit.h"

struct request {
	struct control_service *service;
	struct json_object *obj, *answer;
	bool later; /* there is no answer yet */
};

static struct json_object *get(struct json_object *obj, const char *key, json_type type)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(obj, key, &v) && json_object_is_type(v, type) ? v : NULL;
}

static void add_number(struct json_object *obj, const char *key, uint64_t v)
{
	json_object_object_add(obj, key, json_object_new_uint64(v));
}

static int fail(struct request *r, const char *fmt, ...) printf_like(2, 3);

static int fail(struct request *r, const char *fmt, ...)
{
	char why[CONTROL_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	config_mask_text(why);
	json_object_object_add(r->answer, "error", json_object_new_string(why));
	return -EINVAL;
}

/* --- showing ---------------------------------------------------------------------------------- */

static int do_who(struct request *r)
{
	const struct config *c = r->service->config(r->service->ctx);
	struct json_object *names = json_object_new_array();

	r->service->tell(r->service->ctx, r->answer);
	for (uint32_t i = 0; i < c->subsys_count; i++)
		json_object_array_add(names, json_object_new_string(c->subsystems[i].nqn));
	json_object_object_add(r->answer, "subsystems", names);
	add_number(r->answer, "edits", r->service->edits);
	add_number(r->answer, "unsaved", r->service->edits - r->service->saved);
	return 0;
}

static int do_show(struct request *r)
{
	const struct config *c = r->service->config(r->service->ctx);
	struct json_object *secrets = get(r->obj, "secrets", json_type_boolean), *copy = NULL,
			   *list;

	(void)do_who(r);
	if (json_object_deep_copy(c->doc, &copy, NULL) != 0)
		return fail(r, "out of memory");
	if (!secrets || !json_object_get_boolean(secrets))
		config_mask(copy);
	json_object_object_add(r->answer, "document", copy);
	list = json_object_new_array();
	r->service->tell_namespaces(r->service->ctx, list);
	json_object_object_add(r->answer, "namespaces", list);
	return 0;
}

/* --- changing --------------------------------------------------------------------------------- */

static bool warned_before(const struct config *before, const char *warning)
{
	for (uint32_t i = 0; i < before->warning_count; i++)
		if (strcmp(before->warnings[i], warning) == 0)
			return true;
	return false;
}

/* What has no effect, and was not there before. */
static struct json_object *new_warnings(const struct config *before, const struct config *to)
{
	struct json_object *list = json_object_new_array();
	char text[CONTROL_WHY_MAX];

	for (uint32_t i = 0; i < to->warning_count; i++) {
		if (warned_before(before, to->warnings[i]))
			continue;
		object_name_places(to->doc, to->warnings[i], text, sizeof(text));
		json_object_array_add(list, json_object_new_string(text));
	}
	return list;
}

/* Takes the document over. edits: what it counts for, if it is another than before. */
static int become(struct request *r, struct json_object *doc, uint64_t edits)
{
	struct control_service *s = r->service;
	const struct config *before = s->config(s->ctx);
	char why[CONTROL_WHY_MAX] = "", named[CONTROL_WHY_MAX];
	struct json_object *warnings;
	struct config *c = NULL;
	size_t steps = 0;
	bool same;
	int error = config_read(doc, &c, why, sizeof(why));

	if (error) {
		object_name_places(doc, why, named, sizeof(named));
		config_drop(doc);
		return fail(r, "%s", named);
	}
	same = json_object_equal(before->doc, doc);
	warnings = new_warnings(before, c);
	error = s->become(s->ctx, c, &steps, why, sizeof(why));
	if (error) {
		object_name_places(doc, why, named, sizeof(named));
		json_object_put(warnings);
		config_free(c);
		r->later = error == -EINPROGRESS;
		return r->later ? error : fail(r, "%s", named);
	}
	s->edits += same ? 0 : edits;
	add_number(r->answer, "changes", steps);
	json_object_object_add(r->answer, "warnings", warnings);
	return 0;
}

/* Of a disk that is made, with whole blocks: one that is disabled is not tried by opening it. */
static bool is_size(const char *text)
{
	uint64_t bytes;

	return size_parse(text, 512, UINT64_MAX >> 1, &bytes) == 0 && bytes % 512 == 0;
}

/* One command of a transaction, out of a list of words. */
static int edit_one(struct request *r, struct json_object *doc, struct json_object *command,
		    bool *ret_measure)
{
	const char *words[EDIT_WORDS_MAX + 2];
	char why[EDIT_WHY_MAX], made[OBJECT_PATH_MAX];
	size_t n = config_length(command);
	struct edit e;

	if (!n || n > EDIT_WORDS_MAX + 1)
		return fail(r, "a command is a list of 1 to %d words", EDIT_WORDS_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		struct json_object *w = json_object_array_get_idx(command, i);

		words[i] =
			json_object_is_type(w, json_type_string) ? json_object_get_string(w) : "";
		if (strlen(words[i]) != (size_t)json_object_get_string_len(w))
			return fail(r, "a command is a list of words");
	}
	if (edit_parse(words, n, &e, why, sizeof(why)) != 0)
		return fail(r, "%s", why);
	if (e.verb == EDIT_RESIZE && !edit_changes(&e)) {
		if (!object_find(doc, &e.path)) {
			object_place(&e.path, made);
			return fail(r, "%s: there is no such namespace", made);
		}
		*ret_measure = true;
		return 0;
	}
	if (edit_apply(doc, &e, made, why, sizeof(why)) != 0)
		return fail(r, "%s", why);
	if (e.verb == EDIT_RESIZE && !is_size(e.words[0])) {
		object_place(&e.path, made);
		return fail(r, "%s: '%.60s' is not a size of a disk; 512m and 1g are", made,
			    e.words[0]);
	}
	if (*made)
		json_object_array_add(get(r->answer, "created", json_type_array),
				      json_object_new_string(made));
	return 0;
}

static int do_edit(struct request *r)
{
	struct control_service *s = r->service;
	struct json_object *commands = get(r->obj, "commands", json_type_array), *doc = NULL;
	size_t n = commands ? json_object_array_length(commands) : 0;
	bool measure = false;
	int error = 0;

	if (!n || n > CONTROL_COMMANDS_MAX)
		return fail(r, "there are 1 to %d commands in a transaction", CONTROL_COMMANDS_MAX);
	if (json_object_deep_copy(s->config(s->ctx)->doc, &doc, NULL) != 0)
		return fail(r, "out of memory");
	json_object_object_add(r->answer, "created", json_object_new_array());
	for (size_t i = 0; i < n && !error; i++) {
		error = edit_one(r, doc, json_object_array_get_idx(commands, i), &measure);
		if (error)
			add_number(r->answer, "command", i);
	}
	if (error)
		config_drop(doc);
	else
		error = become(r, doc, n);
	if (!error && measure)
		s->measure(s->ctx);
	if (error)
		json_object_object_del(r->answer, "created");
	return error;
}

static int do_restore(struct request *r)
{
	struct json_object *doc = get(r->obj, "document", json_type_object);

	if (!doc)
		return fail(r, "there is no document to be restored");
	doc = json_object_get(doc);
	json_object_object_del(r->obj, "document");
	return become(r, doc, 1);
}

static int do_saved(struct request *r)
{
	struct json_object *edits = get(r->obj, "edits", json_type_int);
	int64_t n = edits ? json_object_get_int64(edits) : -1;

	if (n < 0 || (uint64_t)n > r->service->edits)
		return fail(r, "so many edits there were not");
	/* Of two who save at a time the one that ends last has put his document into the file,
	 * which may be the older. */
	r->service->saved = (uint64_t)n;
	return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static void dispatch(struct request *r)
{
	static const struct {
		const char *name;
		int (*act)(struct request *r);
	} ops[] = {
		{"who", do_who},	 {"show", do_show},   {"edit", do_edit},
		{"restore", do_restore}, {"saved", do_saved},
	};
	struct json_object *version = get(r->obj, "weft", json_type_int);
	struct json_object *op = get(r->obj, "op", json_type_string);

	if (!version || json_object_get_int(version) != CONTROL_VERSION) {
		(void)fail(r,
			   "the service speaks version %d: it and the command are of different "
			   "versions of weft",
			   CONTROL_VERSION);
		return;
	}
	for (size_t i = 0; op && i < ARRAY_SIZE(ops); i++)
		if (strcmp(ops[i].name, json_object_get_string(op)) == 0) {
			(void)ops[i].act(r);
			return;
		}
	(void)fail(r, "the service does not know what is asked of it");
}

char *control_request(struct control_service *s, const char *line, size_t len, size_t *ret_len,
		      bool *ret_later)
{
	struct request r = {.service = s, .answer = json_object_new_object()};
	char why[256], *text;

	add_number(r.answer, "weft", CONTROL_VERSION);
	if (config_parse_text(line, len, &r.obj, why, sizeof(why)) != 0)
		(void)fail(&r, "the request is no JSON: %s", why);
	else
		dispatch(&r);
	text = r.later ? NULL : config_line(r.answer);
	*ret_later = r.later;
	*ret_len = text ? strlen(text) : 0;
	config_drop(r.answer);
	config_drop(r.obj);
	return text;
}
