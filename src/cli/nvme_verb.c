/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/nvme_verb.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/secret.h"

const char nvme_verb_zero_doc[] = "zero", nvme_verb_idle_doc[] = "idle";

enum {
	ROWS_MAX = 64,
	LONG_ALONE = 0x10000, /* beside a verb's letter: its row has the long word alone */
};

/* What `nvme connect` has letters for, but for -o, which is a verb's own matter. */
static const char connect_letters[] = "tasnwqIQkclgGSC";
/* Of these, what has no effect where nothing is connected to again. */
static const char idle_letters[] = "cl";

struct verb {
	const struct argp *argp; /* as it is written */
	void *input;
	bool by_uri;
	struct nvme_opts *opts;
	struct argp_option own[ROWS_MAX], common[ROWS_MAX];
	char where[256]; /* heading of the options that say where the controller is */
	bool seen[sizeof(connect_letters)];
};

static bool is_end(const struct argp_option *row)
{
	return !row->name && !row->key && !row->doc;
}

static bool is_letter(int key, const char *letters)
{
	return key > 0 && key < 0x80 && strchr(letters, key);
}

/* A verb without options has no table. */
static const struct argp_option *rows_of(const struct argp *argp)
{
	static const struct argp_option none[] = {{0}};

	return argp->options ? argp->options : none;
}

static const struct argp_option *row_of_key(const struct verb *v, int key)
{
	const struct argp_option *real = NULL;

	for (const struct argp_option *row = rows_of(v->argp); !is_end(row); row++) {
		if (!(row->flags & OPTION_ALIAS))
			real = row;
		if (row->key == key && (row->name || row->flags & OPTION_ALIAS))
			return real;
	}
	return NULL;
}

static bool has_word(const struct verb *v, const char *name)
{
	for (const struct argp_option *row = rows_of(v->argp); !is_end(row); row++)
		if (row->name && name && strcmp(row->name, name) == 0)
			return true;
	return false;
}

/* --- which of both ---------------------------------------------------------------------------- */

/* A device of the kernel's stands where a URI is to stand, which is told then. */
static bool is_device(const char *word)
{
	return strncmp(word, "/dev/nvme", 9) == 0 || strncmp(word, "mctp:", 5) == 0;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-?") == 0 ||
	       strcmp(word, "--usage") == 0;
}

/* No option's value looks like one: what begins as a URI is no file (nvme_uri_is()). Help tells of
 * the verb's letters. */
static bool is_by_uri(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (nvme_uri_is(argv[i]) || is_device(argv[i]) || is_help(argv[i]))
			return true;
	return false;
}

/* --- the tables ------------------------------------------------------------------------------- */

static void add(struct argp_option *rows, unsigned int *count, const struct argp_option *row)
{
	assert(*count + 1 < ROWS_MAX); /* the last one stays zero: the end */
	rows[(*count)++] = *row;
}

static void write_own(struct verb *v)
{
	unsigned int n = 0;

	for (const struct argp_option *row = rows_of(v->argp); !is_end(row); row++) {
		struct argp_option r = *row;

		if (!v->by_uri && is_letter(r.key, connect_letters))
			r.key |= LONG_ALONE;
		add(v->own, &n, &r);
	}
	if (v->by_uri)
		return;
	/* These letters by themselves, to be told of. */
	for (const struct argp_option *row = rows_of(v->argp); !is_end(row); row++)
		if (is_letter(row->key, idle_letters))
			add(v->own, &n,
			    &(struct argp_option){
				    .key = row->key, .arg = row->arg, .flags = OPTION_HIDDEN});
}

static void write_heading(struct verb *v)
{
	char letters[3 * sizeof(connect_letters) + 1] = "";

	for (const struct argp_option *row = rows_of(v->argp); !is_end(row); row++)
		if (is_letter(row->key, connect_letters) && row->name)
			snprintf(letters + strlen(letters), sizeof(letters) - strlen(letters),
				 " -%c", row->key);
	snprintf(v->where, sizeof(v->where), "Where the subsystem is, instead of a URI%s%s%s:",
		 *letters ? " (letters are those of `nvme connect` then:" : "", letters,
		 *letters ? ")" : "");
}

/* The words that the verb has itself are left out. */
static void write_common(struct verb *v)
{
	const struct argp *way = nvme_opts_children[0].argp;
	const struct argp_option *const tables[] = {way->children[0].argp->options, way->options};
	unsigned int n = 0;

	write_heading(v);
	for (unsigned int i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct argp_option *row = tables[i]; !is_end(row); row++) {
			struct argp_option r = *row;

			if (has_word(v, r.name))
				continue;
			if (!r.name && !r.key && r.group == 2)
				r.doc = v->where;
			add(v->common, &n, &r);
		}
}

/* --- what looks as if the other was meant ----------------------------------------------------- */

static bool is_secret(const char *text)
{
	return strncmp(text, "DHHC-1:", 7) == 0;
}

/* Beside a URI: a value that fits the connection alone. */
static void check_verb_letter(const struct argp_option *row, int key, char *arg,
			      struct argp_state *state)
{
	if (key == 'n' && nvme_nqn_valid(arg))
		argp_error(state,
			   "-n '%s': beside a URI -n is --namespace-id, as with nvme; the "
			   "subsystem is named in the URI, or by --nqn",
			   arg);
	if (key == 'S' && arg && (is_secret(arg) || arg[0] == '@')) {
		secret_mask(arg);
		argp_error(state,
			   "beside a URI -S is --%s, as with nvme; a key is given by "
			   "--dhchap-secret",
			   row->name);
	}
}

/* Without a URI: letters of which the verb has its own meaning. False: wrong, and told. */
static bool check_connect_letter(struct verb *v, const struct argp_option *row, int key,
				 struct argp_state *state)
{
	bool *seen = &v->seen[strchr(connect_letters, key) - connect_letters];

	if (*seen)
		argp_error(state,
			   "-%c stands twice: without a URI it says where the controller "
			   "is, and --%s has its long word alone",
			   key, row->name);
	if (*seen)
		return false;
	*seen = true;
	snprintf(v->opts->advice, sizeof(v->opts->advice),
		 "; without a URI that is -%c, and --%s has its long word alone", key, row->name);
	return true;
}

/* --- the parsers ------------------------------------------------------------------------------ */

static void take_zero(struct argp_state *state, const struct argp_option *row, const char *arg)
{
	char *end;

	if (arg && strtoull(arg, &end, 0) == 0 && !*end)
		return;
	argp_error(state,
		   "--%s: weft sends no metadata, protection information, directives and "
		   "attributes with it: leave it out, or 0; `weft io-passthru` sends any "
		   "dword of a command",
		   row->name);
}

static error_t take_own(struct verb *v, int key, char *arg, struct argp_state *state)
{
	const struct argp_option *row = row_of_key(v, key);

	if (row && v->by_uri)
		check_verb_letter(row, key, arg, state);
	if (row && row->doc == nvme_verb_zero_doc) {
		take_zero(state, row, arg);
		return 0;
	}
	if (row && row->doc == nvme_verb_idle_doc)
		return 0;
	if (row && row->name && strcmp(row->name, "namespace-id") == 0) {
		v->opts->uri.nsid =
			(uint32_t)cli_parse_number(state, "--namespace-id", arg, 0, UINT32_MAX);
		return 0;
	}
	return v->argp->parser(key, arg, state);
}

static error_t parse_own(int key, char *arg, struct argp_state *state)
{
	struct verb *v = state->input;
	error_t err;

	state->input = v->input;
	if (key == ARGP_KEY_INIT) {
		err = v->argp->parser(key, arg, state);
		v->opts = state->child_inputs[0];
		state->child_inputs[0] = v;
		return err;
	}
	if (key == ARGP_KEY_ARG && is_secret(arg)) {
		secret_mask(arg);
		argp_error(state, "a key stands for itself: --dhchap-secret and "
				  "--dhchap-ctrl-secret take one");
	}
	if (!v->by_uri && is_letter(key, idle_letters) && row_of_key(v, key)) {
		argp_error(state,
			   "-%c: without a URI the letters are of `nvme connect`, where it "
			   "is how to connect again, which this verb does not; what is meant "
			   "is --%s",
			   key, row_of_key(v, key)->name);
		return 0;
	}
	return take_own(v, key & ~LONG_ALONE, arg, state);
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct verb *v = state->input;
	const struct argp_option *row = row_of_key(v, key);
	error_t err;

	v->opts->advice[0] = 0;
	if (!v->by_uri && row && is_letter(key, connect_letters) &&
	    !check_connect_letter(v, row, key, state))
		return 0;
	state->input = v->opts;
	err = nvme_opts_children[0].argp->children[0].argp->parser(key, arg, state);
	v->opts->advice[0] = 0;
	return err;
}

void nvme_verb_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input)
{
	struct verb v = {.argp = argp, .input = input, .by_uri = is_by_uri(argc, argv)};
	const struct argp common = {.options = v.common, .parser = parse_common};
	const struct argp_child children[] = {{&common, 0, NULL, 0}, {0}};
	const struct argp own = {
		.options = v.own,
		.parser = parse_own,
		.args_doc = argp->args_doc,
		.doc = argp->doc,
		.children = children,
	};

	write_own(&v);
	write_common(&v);
	cli_parse(&own, name, argc, argv, &v);
}

bool nvme_verb_took_format(struct nvme_opts *opts, struct argp_state *state, const char *text)
{
	enum output_format format;

	if (output_format_parse(text, &format))
		return false;
	if (format == OUTPUT_BINARY && !opts->takes_binary)
		argp_error(state, "there is no binary form of this: --output-format is normal or "
				  "json");
	opts->format = format;
	return true;
}
