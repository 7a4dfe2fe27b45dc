/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A scenario's file as a whole; its sections are read by read_*.c. */
#include "fabric/scenario/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "fabric/scenario/read_priv.h"

#define STEPS	       200
#define FILE_MAX_BYTES (16u << 20)

static const char *const top_own[] = {"about",	     "topology", "links",      "uplinks",
				      "other_links", "hosts",	 "switches",   "infiniband",
				      "traffic",     "expect",	 "until_done", NULL};

static bool read_bool(struct reader *r, const yaml_node_t *n, const char *what, bool *ret)
{
	static const char *const words[] = {"no", "yes", "false", "true", NULL};
	size_t i = keys_word(r, n, words, what);

	*ret = i % 2;
	return i != SIZE_MAX;
}

static bool read_about(struct reader *r, const yaml_node_t *top, struct scenario *s)
{
	const char *about = keys_text(r, top, "about");
	const yaml_node_t *done = keys_find(r, top, "until_done");

	s->about = strdup(about ? about : "");
	if (!s->about)
		return keys_fail(r, NULL, "no memory");
	return !done || read_bool(r, done, "until_done", &s->until_done);
}

static bool read_all(struct reader *r, struct scenario *s)
{
	const yaml_node_t *top = yaml_document_get_root_node(&r->document);
	const yaml_node_t *traffic, *expect;

	if (!top || top->type != YAML_MAPPING_NODE)
		return keys_fail(r, top, "a scenario is keys with values: see weft-scenario(5)");
	keys_defaults(SECTION_TOP, s);
	if (!keys_read(r, SECTION_TOP, top, s, top_own) || !read_about(r, top, s))
		return false;
	if (s->warmup_ns >= s->duration_ns)
		return keys_fail(r, keys_find(r, top, "warmup"),
				 "the warm-up is as long as all of it: raise `duration`");
	if (!s->step_ns)
		s->step_ns = max_of(s->duration_ns / STEPS, (uint64_t)1);
	if (s->duration_ns / s->step_ns > 1000000)
		return keys_fail(r, keys_find(r, top, "step"),
				 "that is more than a million steps: raise `step`");
	traffic = keys_find(r, top, "traffic");
	expect = keys_find(r, top, "expect");
	if (!traffic)
		return keys_fail(r, top, "nobody sends anything: say who under `traffic:`");
	return read_topology(r, keys_find(r, top, "topology"), &s->network) &&
	       read_links(r, top, &s->network) && read_infiniband(r, top, &s->network) &&
	       read_hosts(r, keys_find(r, top, "hosts"), &s->network) &&
	       fit_infiniband(r, top, &s->network) &&
	       read_switches(r, keys_find(r, top, "switches"), &s->network) &&
	       read_traffic(r, traffic, s, (unsigned)topology_hosts(&s->network.topology)) &&
	       (!expect || read_expect(r, expect, s));
}

static char *name_of(const char *file)
{
	const char *base = strrchr(file, '/');
	char *name = strdup(base ? base + 1 : file), *dot = name ? strrchr(name, '.') : NULL;

	if (dot && dot != name)
		*dot = '\0';
	return name;
}

int scenario_parse(struct scenario **ret, const char *name, const char *text, size_t len, char *err,
		   size_t err_len)
{
	struct reader r = {.name = name, .err = err, .err_len = err_len};
	struct scenario *s = calloc(1, sizeof(*s));
	yaml_parser_t parser;
	bool good;

	if (!s || !yaml_parser_initialize(&parser)) {
		free(s);
		snprintf(err, err_len, "%s: no memory", name);
		return -ENOMEM;
	}
	s->name = name_of(name);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &r.document)) {
		snprintf(err, err_len, "%s:%zu: %s", name, parser.problem_mark.line + 1,
			 parser.problem ? parser.problem : "this is not YAML");
		yaml_parser_delete(&parser);
		scenario_free(s);
		return -EINVAL;
	}
	yaml_parser_delete(&parser);
	good = s->name && read_all(&r, s) && !r.failed;
	yaml_document_delete(&r.document);
	if (good) {
		*ret = s;
		return 0;
	}
	scenario_free(s);
	return -EINVAL;
}

static int slurp(const char *file, char **ret, size_t *ret_len)
{
	FILE *f = fopen(file, "re");
	size_t room = 64 << 10, len = 0, n;
	char *text;
	int rc = 0;

	if (!f)
		return -errno;
	text = malloc(room);
	while (text && (n = fread(text + len, 1, room - len, f))) {
		char *more;

		len += n;
		if (len < room)
			continue;
		more = len < FILE_MAX_BYTES ? realloc(text, room *= 2) : NULL;
		if (!more) {
			free(text);
			fclose(f);
			return -EFBIG;
		}
		text = more;
	}
	if (ferror(f))
		rc = -errno;
	fclose(f);
	if (!text)
		return -ENOMEM;
	if (rc) {
		free(text);
		return rc;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}

int scenario_read(struct scenario **ret, const char *file, char *err, size_t err_len)
{
	size_t len = 0;
	char *text = NULL;
	int rc = slurp(file, &text, &len);

	if (rc) {
		snprintf(err, err_len, "%s: %s", file, errno_text(-rc));
		return rc;
	}
	rc = scenario_parse(ret, file, text, len, err, err_len);
	free(text);
	return rc;
}

void scenario_free(struct scenario *s)
{
	for (size_t i = 0; i < s->ntraffic; i++)
		traffic_fini(&s->traffic[i]);
	for (size_t i = 0; i < s->nexpect; i++) {
		free(s->expect[i].figure);
		free(s->expect[i].of);
		free(s->expect[i].published);
		free(s->expect[i].text);
	}
	for (size_t i = 0; i < s->network.noverrides; i++) {
		free(s->network.overrides[i].end[0]);
		free(s->network.overrides[i].end[1]);
	}
	free(s->network.overrides);
	free(s->traffic);
	free(s->expect);
	free(s->name);
	free(s->about);
	free(s);
}
