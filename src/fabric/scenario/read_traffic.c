/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* traffic. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "fabric/scenario/quantity.h"
#include "fabric/scenario/read_priv.h"

/* ---- hosts ----------------------------------------------------------------------------------- */

static bool add_hosts(struct host_set *s, unsigned first, unsigned last)
{
	unsigned *more = realloc(s->v, (s->n + last - first + 1) * sizeof(*more));

	if (!more)
		return false;
	s->v = more;
	for (unsigned i = first; i <= last; i++)
		s->v[s->n++] = i;
	return true;
}

static bool read_range(struct reader *r, const yaml_node_t *n, unsigned hosts, struct host_set *s)
{
	const char *text = n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "";
	unsigned first, last;
	char rest;

	if (!strcmp(text, "all")) {
		first = 0;
		last = hosts - 1;
	} else if (sscanf(text, "%u-%u%c", &first, &last, &rest) == 2 && first <= last) {
		;
	} else if (sscanf(text, "%u%c", &first, &rest) == 1) {
		last = first;
	} else {
		return keys_fail(r, n, "hosts are numbers, as 3, 0-7, [0-3, 8], or all; not '%s'",
				 text);
	}
	if (last >= hosts)
		return keys_fail(r, n, "there is no host %u: they are 0 to %u", last, hosts - 1);
	return add_hosts(s, first, last) || keys_fail(r, n, "no memory");
}

bool read_hosts_set(struct reader *r, const yaml_node_t *n, unsigned hosts, struct host_set *s)
{
	const yaml_node_t *one;

	if (n->type != YAML_SEQUENCE_NODE)
		return read_range(r, n, hosts, s);
	for (size_t i = 0; (one = keys_element(r, n, i)); i++)
		if (!read_range(r, one, hosts, s))
			return false;
	return s->n || keys_fail(r, n, "here is to be at least one host");
}

static bool read_ends(struct reader *r, const yaml_node_t *n, struct traffic *t, unsigned hosts)
{
	const bool to_one =
		t->kind == TRAFFIC_FLOWS || t->kind == TRAFFIC_STREAM || t->kind == TRAFFIC_INCAST;
	const yaml_node_t *from = keys_find(r, n, "from"), *to = keys_find(r, n, "to");

	if (from) {
		if (!read_hosts_set(r, from, hosts, &t->from))
			return false;
	} else if (!add_hosts(&t->from, 0, t->kind == TRAFFIC_STORM ? 0 : hosts - 1)) {
		return keys_fail(r, n, "no memory");
	}
	if (to)
		return read_hosts_set(r, to, hosts, &t->to);
	return add_hosts(&t->to, 0, to_one ? 0 : hosts - 1) || keys_fail(r, n, "no memory");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A list of [bytes, part of all that are no longer], or a name. */
static bool read_points(struct reader *r, const yaml_node_t *n, struct traffic *t)
{
	size_t count = keys_count(n);
	struct size_point *points = calloc(count, sizeof(*points));

	t->own_points = points;
	t->sizes = (struct sizes){points, count};
	if (!points || !count)
		return keys_fail(r, n, "sizes takes a list of [bytes, part]");
	for (size_t i = 0; i < count; i++) {
		const yaml_node_t *one = keys_element(r, n, i), *v[2] = {NULL, NULL};
		struct size_point *p = &points[i];

		if (one->type == YAML_SEQUENCE_NODE && !keys_element(r, one, 2))
			for (size_t k = 0; k < 2; k++)
				v[k] = keys_element(r, one, k);
		if (!v[0] || !v[1] || v[0]->type != YAML_SCALAR_NODE ||
		    v[1]->type != YAML_SCALAR_NODE ||
		    !quantity_parse(QUANTITY_BYTES, (const char *)v[0]->data.scalar.value,
				    &p->bytes) ||
		    !quantity_parse(QUANTITY_PART, (const char *)v[1]->data.scalar.value,
				    &p->below))
			return keys_fail(r, one,
					 "a point of sizes is [bytes, part], as [10KB, 15%%]");
		if (p->bytes < 1 || p->bytes > 2147483648.0 || p->below < 0 || p->below > 1 ||
		    (i && (p->bytes <= points[i - 1].bytes || p->below < points[i - 1].below)))
			return keys_fail(r, one,
					 "points of sizes grow, in both, from 1 byte to 2 GiB and "
					 "up to 100%%");
	}
	return points[count - 1].below == 1 || keys_fail(r, n, "the last point of sizes is 100%%");
}

static bool read_sizes(struct reader *r, const yaml_node_t *n, struct traffic *t)
{
	const char *words[16], *word = NULL;
	const struct sizes *found;
	size_t k = 0;

	if (!n) {
		/* All alike. */
		t->own_points = calloc(1, sizeof(*t->own_points));
		if (!t->own_points)
			return keys_fail(r, n, "no memory");
		*t->own_points = (struct size_point){(double)t->bytes, 1};
		t->sizes = (struct sizes){t->own_points, 1};
		return true;
	}
	if (n->type == YAML_SEQUENCE_NODE)
		return read_points(r, n, t);
	found = n->type == YAML_SCALAR_NODE ? sizes_find((const char *)n->data.scalar.value) : NULL;
	if (found) {
		t->sizes = *found;
		return true;
	}
	while ((word = sizes_next(word)) && k + 1 < ARRAY_SIZE(words))
		words[k++] = word;
	words[k] = NULL;
	return keys_word(r, n, words, "sizes") != SIZE_MAX;
}

/* ---- a trace --------------------------------------------------------------------------------- */

static int earlier(const void *a, const void *b)
{
	const struct trace_line *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	/* Not every qsort() is stable. */
	return x->number < y->number ? -1 : x->number > y->number;
}

static bool read_line(struct reader *r, const yaml_node_t *n, const char *file, size_t number,
		      const char *line, unsigned hosts, struct traffic *t, size_t *room)
{
	struct trace_line l = {.number = number};
	double start, bytes;
	char rest;

	if (line[strspn(line, " \t\r\n")] == '\0' || *line == '#')
		return true;
	if (sscanf(line, "%lf , %u , %u , %lf %c", &start, &l.from, &l.to, &bytes, &rest) != 4) {
		if (number == 1)
			return true; /* names of columns */
		return keys_fail(r, n, "%s:%zu: a line is start in seconds, from, to, bytes", file,
				 number);
	}
	if (!(start >= 0 && start < 1e5) || !(bytes >= 1 && bytes <= 2147483648.0) ||
	    l.from >= hosts || l.to >= hosts || l.from == l.to)
		return keys_fail(r, n,
				 "%s:%zu: from and to are two different hosts of 0 to %u, and "
				 "bytes are 1 to 2 GiB",
				 file, number, hosts - 1);
	l.start_ns = (uint64_t)(start * 1e9 + .5);
	l.bytes = (uint64_t)bytes;
	if (t->ntrace == *room) {
		struct trace_line *more;

		*room = *room ? *room * 2 : 64;
		more = realloc(t->trace, *room * sizeof(*more));
		if (!more)
			return keys_fail(r, n, "no memory");
		t->trace = more;
	}
	t->trace[t->ntrace++] = l;
	return true;
}

/* Beside the scenario, where it names no directory that begins at the root. */
static FILE *open_beside(const char *scenario, const char *file)
{
	const char *slash = strrchr(scenario, '/');
	char path[4096];

	if (*file == '/' || !slash)
		return fopen(file, "re");
	if (snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - scenario), scenario, file) >=
	    (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return fopen(path, "re");
}

static bool read_trace(struct reader *r, const yaml_node_t *n, struct traffic *t, unsigned hosts)
{
	const char *file = keys_text(r, n, "file");
	size_t number = 0, room = 0;
	char line[512];
	bool good = true;
	FILE *f;

	if (!file)
		return keys_fail(r, n, "a trace needs a `file`");
	f = open_beside(r->name, file);
	if (!f)
		return keys_fail(r, keys_find(r, n, "file"), "%s: %s", file, errno_text(errno));
	while (good && fgets(line, sizeof(line), f))
		good = read_line(r, n, file, ++number, line, hosts, t, &room);
	fclose(f);
	if (good && !t->ntrace)
		return keys_fail(r, n, "%s has no messages", file);
	if (good)
		qsort(t->trace, t->ntrace, sizeof(*t->trace), earlier);
	return good;
}

/* ---- an entry -------------------------------------------------------------------------------- */

static bool has_pair(const struct traffic *t)
{
	for (unsigned a = 0; a < t->from.n; a++)
		for (unsigned b = 0; b < t->to.n; b++)
			if (traffic_meets(t, a, b))
				return true;
	return false;
}

/* Each of `from` has somebody else in `to`. */
static bool has_others(struct reader *r, const yaml_node_t *n, const struct traffic *t)
{
	for (unsigned a = 0; a < t->from.n; a++) {
		unsigned b = 0;

		while (b < t->to.n && t->to.v[b] == t->from.v[a])
			b++;
		if (b == t->to.n)
			return keys_fail(r, n, "there is nobody but itself in `to` for host %u",
					 t->from.v[a]);
	}
	return true;
}

/* Of packets that nobody acknowledges. */
static bool check_unreliable(struct reader *r, const yaml_node_t *n, const struct traffic *t,
			     unsigned mtu)
{
	if (t->kind == TRAFFIC_DATAGRAMS && t->bytes > mtu)
		return keys_fail(
			r, n, "a datagram has no more than the hosts' mtu, %u bytes: say `bytes`",
			mtu);
	return true;
}

static bool check(struct reader *r, const yaml_node_t *n, struct traffic *t,
		  const struct scenario *s)
{
	const struct network_nature *net = &s->network;

	if (!keys_only(r, n, "kind name start dscp", traffic_keys[t->kind], traffic_names[t->kind]))
		return false;
	if (t->kind == TRAFFIC_ALLREDUCE && t->from.n < 2)
		return keys_fail(r, n, "an allreduce is of two hosts at least");
	if (t->kind != TRAFFIC_ALLREDUCE && t->kind != TRAFFIC_TRACE && t->kind != TRAFFIC_STORM &&
	    !has_pair(t))
		return keys_fail(r, n, "there is nobody in `from` with somebody else in `to`");
	if (t->kind == TRAFFIC_STORM && !t->every_ns)
		return keys_fail(r, n, "a storm needs `every`, as 100us");
	if (t->kind != TRAFFIC_INCAST && !t->count)
		return keys_fail(r, n, "count is 1 at least");
	if (t->kind == TRAFFIC_INCAST && t->count == 1 &&
	    (keys_find(r, n, "every") || keys_find(r, n, "load")))
		return keys_fail(r, n,
				 "one incast comes at once, whatever `every` or `load`: say how "
				 "many by `count`, 0 for no end");
	if (t->kind == TRAFFIC_STORAGE && !has_others(r, n, t))
		return false;
	if (t->paired && t->from.n != t->to.n)
		return keys_fail(r, n, "pairs are of as many hosts in `from` as in `to`");
	if (t->kind == TRAFFIC_STORM && net->subnet.is_there)
		return keys_fail(r, n, "pauses are Ethernet's: with `infiniband` there are none");
	if ((t->kind == TRAFFIC_DATAGRAMS || t->kind == TRAFFIC_UNRELIABLE) &&
	    !check_unreliable(r, n, t, 128u << net->host.mtu))
		return false;
	if (t->kind == TRAFFIC_NVME && t->depth > NVME_DEPTH_MAX)
		return keys_fail(r, n, "a queue has %d entries at most here: lower `depth`",
				 NVME_DEPTH_MAX);
	if (t->kind == TRAFFIC_NVME && sizes_most(&t->sizes) > NVME_BYTES_MAX)
		return keys_fail(r, n,
				 "a command moves %u bytes at most: lower `bytes`, or `sizes`",
				 NVME_BYTES_MAX);
	if (t->stop_ns && t->stop_ns <= t->start_ns)
		return keys_fail(r, n, "it stops before it starts");
	if (t->start_ns >= s->duration_ns)
		return keys_fail(
			r, keys_find(r, n, "start"),
			"it does not start before the run is over: lower `start`, or raise "
			"`duration`");
	return true;
}

static bool read_one(struct reader *r, const yaml_node_t *n, struct traffic *t, unsigned hosts,
		     const struct scenario *s)
{
	static const char *const own[] = {"kind", "name",      "from",	"to",	"sizes",
					  "verb", "algorithm", "pairs", "file", NULL};
	static const char *const verbs[] = {"write", "read", NULL};
	static const char *const algorithms[] = {"ring", "tree", NULL};
	static const char *const yes[] = {"no", "yes", NULL};
	const char *words[TRAFFIC_KINDS + 1] = {NULL};
	const yaml_node_t *kind, *verb, *algorithm, *pairs;
	size_t k;

	if (!keys_is(r, n, YAML_MAPPING_NODE, "each of traffic"))
		return false;
	keys_defaults(SECTION_TRAFFIC, t);
	if (!keys_read(r, SECTION_TRAFFIC, n, t, own))
		return false;
	kind = keys_find(r, n, "kind");
	if (!kind)
		return keys_fail(r, n, "what is done here? Say it by `kind:`");
	for (size_t i = 0; i < TRAFFIC_KINDS; i++)
		words[i] = traffic_names[i];
	k = keys_word(r, kind, words, "kind");
	if (k == SIZE_MAX)
		return false;
	t->kind = (enum traffic_kind)k;
	t->reads = t->kind == TRAFFIC_STORAGE || t->kind == TRAFFIC_NVME;
	verb = keys_find(r, n, "verb");
	if (verb && (k = keys_word(r, verb, verbs, "verb")) == SIZE_MAX)
		return false;
	if (verb)
		t->reads = k == 1;
	algorithm = keys_find(r, n, "algorithm");
	if (algorithm && (k = keys_word(r, algorithm, algorithms, "algorithm")) == SIZE_MAX)
		return false;
	t->tree = algorithm && k == 1;
	pairs = keys_find(r, n, "pairs");
	if (pairs && (k = keys_word(r, pairs, yes, "pairs")) == SIZE_MAX)
		return false;
	t->paired = pairs && k == 1;
	return read_ends(r, n, t, hosts) && read_sizes(r, keys_find(r, n, "sizes"), t) &&
	       check(r, n, t, s) && (t->kind != TRAFFIC_TRACE || read_trace(r, n, t, hosts));
}

/* By another than the last, which is to have a name. */
static bool is_taken(const struct scenario *s, const char *name)
{
	for (size_t i = 0; i + 1 < s->ntraffic; i++)
		if (!strcmp(s->traffic[i].name, name))
			return true;
	return false;
}

/* What it calls itself, or its kind, with a number behind that if it is not the first of it. */
static bool name_it(struct reader *r, const yaml_node_t *n, struct scenario *s, struct traffic *t)
{
	const char *name = keys_text(r, n, "name");
	unsigned alike = 1;
	char text[64];

	if (r->failed)
		return false;
	for (size_t i = 0; i + 1 < s->ntraffic; i++)
		alike += s->traffic[i].kind == t->kind;
	/* What the file calls another may be what we would call this one. */
	do
		snprintf(text, sizeof(text), alike > 1 ? "%s%u" : "%s", traffic_names[t->kind],
			 alike);
	while (alike++ && !name && is_taken(s, text));
	if (name && is_taken(s, name))
		return keys_fail(r, n, "there is a '%s' already", name);
	t->name = strdup(name ? name : text);
	return t->name || keys_fail(r, n, "no memory");
}

bool read_traffic(struct reader *r, const yaml_node_t *list, struct scenario *s, unsigned hosts)
{
	const yaml_node_t *one;

	if (!keys_is(r, list, YAML_SEQUENCE_NODE, "traffic"))
		return false;
	s->traffic = calloc(keys_count(list) + 1, sizeof(*s->traffic));
	if (!s->traffic)
		return keys_fail(r, list, "no memory");
	for (size_t i = 0; (one = keys_element(r, list, i)); i++) {
		struct traffic *t = &s->traffic[s->ntraffic++];

		if (!read_one(r, one, t, hosts, s) || !name_it(r, one, s, t))
			return false;
	}
	return s->ntraffic || keys_fail(r, list, "nobody sends anything");
}

void traffic_fini(struct traffic *t)
{
	free(t->own_points);
	free(t->trace);
	free(t->from.v);
	free(t->to.v);
	free(t->name);
}
