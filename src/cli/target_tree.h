/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The objects of a document as a tree, as nvmetcli's ls shows them, or as their paths. */
#ifndef WEFT_CLI_TARGET_TREE_H
#define WEFT_CLI_TARGET_TREE_H

#include "config/objects.h"

/* namespaces: what the service says of them besides (control_request.h), or NULL. False: there is
 * no such object. */
bool target_tree(struct json_object *doc, struct json_object *namespaces,
		 const struct object_path *path, bool colour);
/* A path a line. */
bool target_paths(struct json_object *doc, const struct object_path *path);

#endif
