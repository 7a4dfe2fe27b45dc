/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Input: requests to a service's control socket, a line each. Each has an answer, a line of JSON of
 * our version; one that says no has changed nothing, and masks hide keys.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/control_request.h"

#define KEY "XYZZY"

static const char document[] =
	"{\"hosts\":[{\"nqn\":\"nqn.a:h\",\"dhchap\":{\"key\":\"DHHC-1:" KEY "\"}}],"
	"\"subsystems\":[{\"nqn\":\"nqn.a:s\",\"namespaces\":[{\"nsid\":1,\"enable\":1,"
	"\"device\":{\"path\":\"mem:1m\"}}],\"allowed_hosts\":[\"nqn.a:h\"]}],"
	"\"ports\":[{\"portid\":1,\"subsystems\":[\"nqn.a:s\"],\"addr\":{\"trtype\":\"tcp\","
	"\"traddr\":\"192.0.2.1\",\"trsvcid\":\"4420\"}}]}";

static struct config *config;

static const struct config *the_config(void *ctx)
{
	(void)ctx;
	return config;
}

/* Now and then it cannot, or not yet. */
static int become(void *ctx, struct config *to, size_t *ret_steps, char *why, size_t room)
{
	if (to->subsys_count > 3)
		return -EINPROGRESS;
	if (to->host_count > 3) {
		snprintf(why, room, "hosts[0].nqn: too many");
		return -EINVAL;
	}
	(void)ctx;
	config_free(config);
	config = to;
	*ret_steps = 1;
	return 0;
}

static void measure(void *ctx)
{
	(void)ctx;
}

static void tell(void *ctx, struct json_object *obj)
{
	(void)ctx;
	json_object_object_add(obj, "pid", json_object_new_int(1));
}

static void tell_namespaces(void *ctx, struct json_object *list)
{
	(void)ctx;
	(void)list;
}

static void check_answer(const char *answer, size_t len, const char *before, bool told)
{
	struct json_object *obj = NULL, *v = NULL;
	char why[256], *after = config_text(config->doc);

	must(len == strlen(answer) && strchr(answer, '\n') == answer + len - 1);
	must(config_parse_text(answer, len, &obj, why, sizeof(why)) == 0);
	must(json_object_object_get_ex(obj, "weft", &v) && json_object_get_int(v) == 1);
	if (json_object_object_get_ex(obj, "error", &v)) {
		must(json_object_get_string_len(v) > 0);
		must(strcmp(before, after) == 0);
		must(told || !strstr(answer, KEY));
	}
	json_object_put(obj);
	free(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_service s = {.config = the_config,
				    .become = become,
				    .measure = measure,
				    .tell = tell,
				    .tell_namespaces = tell_namespaces};
	struct json_object *doc;
	bool told = false; /* who asks has said it */
	bool later;
	char why[256];

	must(config_parse_text(document, sizeof(document) - 1, &doc, why, sizeof(why)) == 0);
	must(config_read(doc, &config, why, sizeof(why)) == 0);
	for (int n = 0; size && n < 20; n++) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t len = end ? (size_t)(end - data) : size, answer_len;
		char *before = config_text(config->doc), *answer, *line = malloc(len + 1);

		memcpy(line, data, len); /* with nothing behind it */
		answer = control_request(&s, line, len, &answer_len, &later);
		must(later == !answer && s.saved <= s.edits);
		told |= memmem(line, len, KEY, strlen(KEY)) != NULL;
		if (answer)
			check_answer(answer, answer_len, before, told);
		free(answer);
		free(before);
		free(line);
		data += len + (end != NULL);
		size -= len + (end != NULL);
	}
	config_free(config);
	return 0;
}
