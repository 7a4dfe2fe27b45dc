/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Input: a configuration, a zero, and commands that edit it, a line each. What goes wrong names
 * something; what is edited is written, read again and means the same.
 */
#include "fuzz.h"

#include <string.h>

#include <json-c/json.h>

#include "config/config.h"
#include "config/edit.h"

static void check_path(const struct object_path *path)
{
	char text[OBJECT_PATH_MAX], place[OBJECT_PLACE_MAX], why[EDIT_WHY_MAX];
	struct object_path again;

	object_path_text(path, text);
	must(object_path_parse(text, &again, why, sizeof(why)) == 0);
	must(again.kind == path->kind && again.list == path->list &&
	     strcmp(again.name, path->name) == 0 && strcmp(again.owner, path->owner) == 0);
	object_place(path, place);
	must(*place);
}

static void one_line(struct json_object *doc, char *line)
{
	const char *words[EDIT_WORDS_MAX + 1];
	char why[EDIT_WHY_MAX] = "", made[OBJECT_PATH_MAX], *word;
	struct edit e;
	size_t n = 0;

	while ((word = strsep(&line, " ")) && n < EDIT_WORDS_MAX + 1)
		words[n++] = word;
	if (edit_parse(words, n, &e, why, sizeof(why)) != 0) {
		must(*why);
		return;
	}
	check_path(&e.path);
	if (edit_apply(doc, &e, made, why, sizeof(why)) != 0)
		must(*why);
}

/* What a transaction leaves is a configuration, or is said where it is none. */
static void check_result(struct json_object *doc)
{
	char *once = config_text(doc), *twice, why[700] = "", named[700];
	struct json_object *again = NULL;
	struct config *c = NULL;

	must(once);
	if (config_parse_text(once, strlen(once), &again, why, sizeof(why)) == 0) {
		twice = config_text(again);
		must(strcmp(once, twice) == 0);
		free(twice);
		config_drop(again);
	}
	free(once);
	if (config_read(doc, &c, why, sizeof(why)) != 0) {
		must(*why);
		object_name_places(doc, why, named, sizeof(named));
		must(*named);
		config_drop(doc);
	}
	config_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = memchr(data, 0, size);
	struct json_object *doc = NULL;
	char why[300] = "", *text, *rest, *line;

	if (!zero || config_parse_text((const char *)data, (size_t)(zero - data), &doc, why,
				       sizeof(why)) != 0)
		return 0;
	size -= (size_t)(zero + 1 - data);
	text = malloc(size + 1);
	memcpy(text, zero + 1, size);
	text[size] = '\0';
	for (rest = text; (line = strsep(&rest, "\n"));)
		one_line(doc, line);
	free(text);
	check_result(doc);
	return 0;
}
