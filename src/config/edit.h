/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands that edit a document, in nvmetcli's words. A command is parsed without one, so that who
 * sends it knows that it is well formed; several make a transaction, whose result alone has to be a
 * configuration (config_read()): in between anything may be missing.
 *
 *	create /subsystems/NQN/namespaces/3 path=/dev/sdb
 *	set /subsystems/NQN attr allow_any_host=1
 *	/ports/1/subsystems create NQN
 *
 * Of an object's keys only those are set that are known (keys.h); what else a document has is kept.
 */
#ifndef WEFT_CONFIG_EDIT_H
#define WEFT_CONFIG_EDIT_H

#include "config/objects.h"

#define EDIT_WORDS_MAX 64 /* of a command */
#define EDIT_WHY_MAX   1400

enum edit_verb {
#define X(id, ...) EDIT_##id,
#include "config/verbs.def"
#undef X
	EDIT_VERBS
};

struct edit_verb_type {
	const char *name, *arguments, *summary;
};

extern const struct edit_verb_type edit_verbs[EDIT_VERBS];

struct edit {
	enum edit_verb verb;
	struct object_path path;
	/* What is behind the path: KEY=VALUE, perhaps with groups before; SIZE; FILE. The caller's.
	 */
	const char *const *words;
	size_t count;
};

/* Verb and path may be in either order. -EINVAL, and why: wrong usage. */
int edit_parse(const char *const *words, size_t count, struct edit *ret, char *why,
	       size_t room) must_use;
/* It changes the document (ls, save, restore and resize without a size do not). */
bool edit_changes(const struct edit *e);
/*
 * Does it. -EINVAL, -ENOMEM, and why: the document is half done then, and to be thrown away.
 * ret_made, if not NULL: what was created, where its number was not told; else "".
 */
int edit_apply(struct json_object *doc, const struct edit *e, char ret_made[OBJECT_PATH_MAX],
	       char *why, size_t room) must_use;

/* The i-th attribute of objects of a kind, as "attr.serial"; group: where the key begins, within
 * ret. False: there are no more. */
bool edit_attribute(enum object_kind kind, unsigned int i, char ret[64], size_t *ret_key);

#endif
