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

static const char *const forms[] = {"DHHC-1", "NVMeTLSkey-1"};

bool config_is_key(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (strstr(text, forms[i]))
			return true;
	return false;
}

/* Up to where a word ends in a message. What only tells how a key reads stays. */
static void mask_behind(char *text, const char *form)
{
	static const char told[] = "HH:BASE64:";

	while ((text = strstr(text, form))) {
		size_t n;

		text += strlen(form);
		text += *text == ':';
		n = strcspn(text, " '`]");
		if (strncmp(text, told, strlen(told)) != 0)
			memmove(text, text + n, strlen(text + n) + 1);
	}
}

void config_mask_text(char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		mask_behind(text, forms[i]);
	mask_behind(text, "key=");
}

void config_drop(struct json_object *doc)
{
	config_wipe(doc);
	json_object_put(doc);
}
