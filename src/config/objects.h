/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The objects of a document, by their paths: /subsystems/NQN/namespaces/3 is nvmetcli's way to say
 * where one is. In messages the same is subsystems[NQN].namespaces[3].
 *
 * A slash within a name is written %2F, a percent sign %25.
 */
#ifndef WEFT_CONFIG_OBJECTS_H
#define WEFT_CONFIG_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct json_object;

enum object_kind {
	OBJECT_ROOT,
#define X(id, ...) OBJECT_##id,
#include "config/objects.def"
#undef X
	OBJECT_KINDS
};

struct object_type {
	enum object_kind owner;
	const char *list; /* of the owner; NULL: the root's, which is in none */
	const char *id;	  /* NULL: it is nothing but its name */
	bool number;
	const char *groups; /* words */
	const char *what, *path;
};

extern const struct object_type object_types[OBJECT_KINDS];

#define OBJECT_NAME_MAX	 256
#define OBJECT_PLACE_MAX 640  /* of a place as messages have it */
#define OBJECT_PATH_MAX	 1700 /* of a path, with everything in it escaped */

struct object_path {
	enum object_kind kind;
	bool list;		     /* the list of such objects itself; no name is told */
	char name[OBJECT_NAME_MAX];  /* the object's */
	char owner[OBJECT_NAME_MAX]; /* its owner's, unless that is the root */
};

/* Of whole characters, none of which steers a terminal. */
bool object_text_valid(const char *text);
/* -EINVAL: why. */
int object_path_parse(const char *text, struct object_path *ret, char *why, size_t room) must_use;
/* Completes a path to a list. -EINVAL: that is no name. */
int object_path_name(struct object_path *path, const char *name, char *why, size_t room) must_use;
/* As it is parsed again. */
void object_path_text(const struct object_path *path, char ret[OBJECT_PATH_MAX]);
void object_place(const struct object_path *path, char ret[OBJECT_PLACE_MAX]);
/* That of the object which it is in; the root is in itself. */
struct object_path object_owner(const struct object_path *path);

/* NULL: there is none, or the document has something else there. */
struct json_object *object_find(struct json_object *doc, const struct object_path *path);
/* The list that the path's object belongs in, and where it is there, or -1. NULL: likewise. */
struct json_object *object_list(struct json_object *doc, const struct object_path *path,
				int *ret_index);
/* What an element of a list of such objects is called: "" if it does not say. */
const char *object_name(enum object_kind kind, struct json_object *obj);

/*
 * text begins with a place by numbers, as config_read() says it; ret has names in place of these:
 * "subsystems[0].namespaces[1].nsid: ..." becomes "subsystems[nqn.x].namespaces[3].nsid: ...".
 */
void object_name_places(struct json_object *doc, const char *text, char *ret, size_t room);

#endif
