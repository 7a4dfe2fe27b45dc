/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a document has that is for nobody's eyes: all that stands in a host's dhchap, but for what
 * it is to be reckoned with. */
#include <string.h>

#include <json-c/json.h>

#include "config/keys.h"

#define MASK "********"

/* A text is json-c's, and stays where it is: all of it is overwritten. */
void config_wipe(struct json_object *v)
{
	size_t n = config_length(v);

	for (size_t i = 0; i < n; i++)
		config_wipe(json_object_array_get_idx(v, i));
	if (json_object_is_type(v, json_type_string))
		explicit_bzero((char *)(uintptr_t)json_object_get_string(v),
			       (size_t)json_object_get_string_len(v));
	if (!json_object_is_type(v, json_type_object))
		return;
	json_object_object_foreach(v, key, in)
	{
		(void)key;
		config_wipe(in);
	}
}

static void mask(struct json_object *v)
{
	const bool empty = !json_object_get_string_len(v);

	config_wipe(v);
	if (!empty)
		(void)json_object_set_string(v, MASK);
}

void config_mask(struct json_object *doc)
{
	struct json_object *hosts = member(doc, "hosts");
	size_t n = config_length(hosts);

	for (size_t i = 0; i < n; i++) {
		struct json_object *dhchap = member(json_object_array_get_idx(hosts, i), "dhchap");

		if (!json_object_is_type(dhchap, json_type_object))
			continue;
		json_object_object_foreach(dhchap, key, v)
		{
			if (strcmp(key, "hash") != 0 && strcmp(key, "dhgroup") != 0 &&
			    json_object_is_type(v, json_type_string))
				mask(v);
		}
	}
}

void config_drop(struct json_object *doc)
{
	config_wipe(doc);
	json_object_put(doc);
}
