/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft target: shows and changes what a running weft serve serves. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/text.h"
#include "base/wiped.h"
#include "cli/cli.h"
#include "cli/control_client.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/secret.h"
#include "cli/target_tree.h"
#include "cli/words.h"
#include "config/config.h"
#include "config/edit.h"
#include "store/store.h"

int cmd_target(int argc, char **argv);

#define BATCH_MAX   (4u << 20)
#define WHY_MAX	    4096
#define WARNING_MAX 1024

struct target_opts {
	const char *service;
	enum output_format format;
	bool paths, secrets;
	char *words[EDIT_WORDS_MAX + 1];
	size_t count;
	struct edit edit;
	bool batch;
};

static const struct argp_option options[] = {
	{"service", 's', "WHICH", 0,
	 "The service that is meant, by process, subsystem or the path of its socket. Default: the "
	 "only one",
	 0},
	{"output-format", 'o', "normal|json", 0, "How ls shows it", 0},
	{"paths", 'p', NULL, 0, "ls shows the paths of objects, one a line", 0},
	{"show-secrets", 'S', NULL, 0, "ls shows keys as they are", 0},
	{0},
};

static char everything[] = "ls";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct target_opts *o = state->input;
	char why[EDIT_WHY_MAX];

	switch (key) {
	case 's':
		o->service = arg;
		return 0;
	case 'o':
		if (output_format_parse(arg, &o->format) != 0)
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case 'p':
		o->paths = true;
		return 0;
	case 'S':
		o->secrets = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->count == ARRAY_SIZE(o->words))
			argp_error(state, "a command has at most %d words", EDIT_WORDS_MAX);
		else
			o->words[o->count++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->count)
			o->words[o->count++] = everything;
		o->batch = o->count == 1 && strcmp(o->words[0], "-") == 0;
		if (!o->batch && edit_parse((const char *const *)o->words, o->count, &o->edit, why,
					    sizeof(why)) != 0)
			argp_error(state, "%s", why);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The verbs are a table: the shells' completion reads it here. */
static char *help_filter(int key, const char *text, void *input)
{
	char *all = NULL;
	size_t len;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&all, &len);
	if (!f)
		return NULL;
	fputs("What is to be done:\n\n", f);
	for (int v = 0; v < EDIT_VERBS; v++)
		fprintf(f, "  %-8s %-26s %s\n", edit_verbs[v].name, edit_verbs[v].arguments,
			edit_verbs[v].summary);
	fprintf(f, "  %-8s %-26s %s\n\n", "-", "", "commands from standard input, as one");
	fputs("A PATH is one of these, as nvmetcli has them; it may stand before the verb:\n\n", f);
	for (int k = OBJECT_ROOT + 1; k < OBJECT_KINDS; k++)
		fprintf(f, "  %-42s %s\n", object_types[k].path, object_types[k].what);
	fclose(f);
	return all;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[VERB [PATH] [KEY=VALUE...]]\n-",
	.doc = "Shows and changes what a running weft serve serves, at once and whole or not at "
	       "all.\v ",
	.help_filter = help_filter,
};

/* --- what stands for something else ----------------------------------------------------------- */

/* A path is of where the command was given; a disk that is made and an NBD server are nowhere. */
static bool is_relative(const char *path)
{
	return *path && *path != '/' && strncmp(path, "mem:", 4) != 0 &&
	       strncmp(path, "null:", 5) != 0 && !store_nbd_names(path);
}

static bool has_key(const char *word, const char *key)
{
	const char *equals = strchr(word, '='), *dot = memchr(word, '.', (size_t)(equals - word));
	const char *own = dot ? dot + 1 : word;

	return (size_t)(equals - own) == strlen(key) && strncmp(own, key, strlen(key)) == 0;
}

/* The text of a key that stands in a file. */
static int read_key(const char *file, char text[AUTH_KEY_TEXT_MAX], char *why)
{
	struct auth_key key = {0};
	int error = secret_read(SECRET_DHCHAP, file, &key, why, WHY_MAX);

	if (!error)
		auth_key_format(&key, text);
	explicit_bzero(&key, sizeof(key));
	return error;
}

/* A word as the service is to have it. */
static int resolve(const struct edit *e, const char *word, struct json_object **ret, char *why)
{
	const char *value = strchr(word, '=');
	char text[PATH_MAX + 512], cwd[PATH_MAX], key[AUTH_KEY_TEXT_MAX];
	int error = 0;

	*ret = NULL;
	value = value ? value + 1 : "";
	if (e->path.kind == OBJECT_NS && *value && has_key(word, "path") && is_relative(value)) {
		if (!getcwd(cwd, sizeof(cwd))) {
			snprintf(why, WHY_MAX, "%s: the present directory is gone", value);
			return -errno;
		}
		if ((size_t)snprintf(text, sizeof(text), "%.*s%s/%s", (int)(value - word), word,
				     cwd, value) >= sizeof(text)) {
			snprintf(why, WHY_MAX, "%.60s...: the path is too long", value);
			return -ENAMETOOLONG;
		}
		*ret = json_object_new_string(text);
	} else if (e->path.kind == OBJECT_HOST && *value == '@') {
		error = read_key(value, key, why);
		if (!error)
			snprintf(text, sizeof(text), "%.*s%s", (int)(value - word), word, key);
		if (!error)
			*ret = json_object_new_string(text);
		explicit_bzero(key, sizeof(key));
		explicit_bzero(text, sizeof(text));
	} else {
		*ret = json_object_new_string(word);
	}
	return error;
}

/* A command as a list of words, to the end of list. */
static int add_command(struct json_object *list, const struct edit *e, char *const *words,
		       size_t count, char *why)
{
	struct json_object *command = json_object_new_array(), *w;

	json_object_array_add(list, command);
	for (size_t i = 0; i < count; i++) {
		const bool is_value = i >= count - e->count;
		int error = 0;

		if (is_value)
			error = resolve(e, words[i], &w, why);
		else
			w = json_object_new_string(words[i]);
		if (error)
			return error;
		json_object_array_add(command, w);
	}
	return 0;
}

/* --- showing ---------------------------------------------------------------------------------- */

static struct json_object *get(struct json_object *obj, const char *key)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(obj, key, &v) ? v : NULL;
}

/* NULL: it is no text. The service may be anybody's, and says what it likes. */
static const char *text_of(struct json_object *v)
{
	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

/* A text of the service's, which may be anybody's. Returns text. */
static const char *tamed(struct json_object *v, char *text, size_t room)
{
	snprintf(text, room, "%s", json_object_get_string(v));
	text_tame(text);
	return text;
}

static int print_json(struct json_object *v)
{
	text_put_json(stdout, json_object_to_json_string_ext(
				      v, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
						 JSON_C_TO_STRING_NOSLASHESCAPE));
	putchar('\n');
	return 0;
}

static int no_such(const struct object_path *path)
{
	char text[OBJECT_PATH_MAX];

	object_path_text(path, text);
	text_tame(text);
	return cli_fail("%s: there is no such %s; `weft target ls` shows what there is", text,
			object_types[path->kind].what);
}

static int show(const struct target_opts *o, struct json_object *answer)
{
	struct json_object *doc = get(answer, "document"), *unsaved = get(answer, "unsaved"), *obj;
	char file[PATH_MAX];
	bool there;

	if (o->format == OUTPUT_JSON) {
		obj = o->edit.path.kind == OBJECT_ROOT ? answer : object_find(doc, &o->edit.path);
		return obj ? print_json(obj) : no_such(&o->edit.path);
	}
	there = o->paths ? target_paths(doc, &o->edit.path)
			 : target_tree(doc, get(answer, "namespaces"), &o->edit.path,
				       output_colour(stdout));
	if (!there)
		return no_such(&o->edit.path);
	if (json_object_get_int64(unsaved) && get(answer, "config") && !o->paths) {
		cli_warn("%s: %lld %s not saved yet; `weft target save` does it",
			 tamed(get(answer, "config"), file, sizeof(file)),
			 (long long)json_object_get_int64(unsaved),
			 json_object_get_int64(unsaved) == 1 ? "edit is" : "edits are");
	}
	return 0;
}

/* False: told. */
static bool has_document(struct json_object *answer, const char *path)
{
	if (json_object_is_type(get(answer, "document"), json_type_object))
		return true;
	cli_fail("%s: the answer has no document; is it a service of weft's that listens there?",
		 path);
	return false;
}

static int do_ls(const struct target_opts *o, const char *path)
{
	struct json_object *request = control_ask("show"), *answer;
	char why[WHY_MAX];
	int status;

	json_object_object_add(request, "secrets", json_object_new_boolean(o->secrets));
	if (control_call(path, request, &answer, why, sizeof(why)) != 0)
		status = cli_fail("%s", why);
	else
		status = has_document(answer, path) ? show(o, answer) : EXIT_FAILED;
	config_drop(answer);
	if (!status && fflush(stdout) != 0)
		status = cli_fail("cannot write the result: %s", strerror(errno));
	return status;
}

/* --- changing --------------------------------------------------------------------------------- */

static void tell_warnings(struct json_object *answer)
{
	struct json_object *list = get(answer, "warnings");
	size_t n = config_length(list);
	char text[OBJECT_PATH_MAX];

	for (size_t i = 0; i < n; i++)
		cli_warn("%s", tamed(json_object_array_get_idx(list, i), text, WARNING_MAX));
	list = get(answer, "created");
	n = config_length(list);
	for (size_t i = 0; i < n; i++)
		puts(tamed(json_object_array_get_idx(list, i), text, sizeof(text)));
}

/* lines[count]: of each command where it stands in standard input, or NULL. */
static int do_change(const char *path, struct json_object *request, const int *lines, size_t count)
{
	struct json_object *answer, *at;
	char why[WHY_MAX];
	int status = 0;

	if (control_call(path, request, &answer, why, sizeof(why)) != 0) {
		at = answer ? get(answer, "command") : NULL;
		status = at && json_object_get_uint64(at) < count
				 ? cli_fail("line %d: %s; nothing has changed",
					    lines[json_object_get_uint64(at)], why)
				 : cli_fail("%s", why);
	} else {
		tell_warnings(answer);
	}
	config_drop(answer);
	return status;
}

static int do_edit(struct target_opts *o, const char *path)
{
	struct json_object *request = control_ask("edit"), *list = json_object_new_array();
	char why[WHY_MAX];

	json_object_object_add(request, "commands", list);
	if (add_command(list, &o->edit, o->words, o->count, why) != 0) {
		config_drop(request);
		return cli_fail("%s", why);
	}
	/* Everybody may see the words of a process. */
	for (size_t i = 0; o->edit.path.kind == OBJECT_HOST && i < o->count; i++) {
		char *value = strchr(o->words[i], '=');

		if (value && (has_key(o->words[i], "key") || has_key(o->words[i], "ctrl_key")))
			secret_mask(value + 1);
	}
	return do_change(path, request, NULL, 0);
}

/* --- from standard input ---------------------------------------------------------------------- */

static char *read_input(size_t *ret_len)
{
	size_t len = 0, room = 0;
	char *text = NULL;

	for (;;) {
		ssize_t n;

		if (len + 1 >= room) {
			char *more = room > BATCH_MAX
					     ? NULL
					     : wiped_grow(text, len, room = 2 * room + 4096);

			if (!more)
				break;
			text = more;
		}
		n = read(STDIN_FILENO, text + len, room - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
		if (n == 0) {
			text[len] = '\0';
			*ret_len = room;
			return text;
		}
	}
	wiped_free(text, len);
	(void)cli_fail("standard input: %s", room > BATCH_MAX ? "it is too long" : strerror(errno));
	return NULL;
}

struct batch {
	struct json_object *list;
	int *lines;
	size_t count, room;
};

static int add_line(struct batch *b, char *line, int number)
{
	char *words[EDIT_WORDS_MAX + 1], why[WHY_MAX];
	int n = words_split(line, words, ARRAY_SIZE(words));
	struct edit e;

	if (n <= 0)
		return n == 0 ? 0
			      : cli_fail("line %d: %s; nothing has changed", number,
					 n == -E2BIG ? "too many words" : "a quote has no end");
	if (edit_parse((const char *const *)words, (size_t)n, &e, why, sizeof(why)) != 0)
		return cli_fail("line %d: %s; nothing has changed", number, why);
	if (!edit_changes(&e) && e.verb != EDIT_RESIZE)
		return cli_fail("line %d: %s changes nothing, and is for a command of its own; "
				"nothing has changed",
				number, edit_verbs[e.verb].name);
	if (b->count == b->room) {
		int *more = reallocarray(b->lines, b->room = 2 * b->room + 64, sizeof(*more));

		if (!more)
			return cli_fail("out of memory");
		b->lines = more;
	}
	b->lines[b->count++] = number;
	return add_command(b->list, &e, words, (size_t)n, why) == 0
		       ? 0
		       : cli_fail("line %d: %s; nothing has changed", number, why);
}

static int do_batch(const char *service)
{
	struct batch b = {.list = json_object_new_array()};
	struct json_object *request = control_ask("edit");
	char path[CONTROL_PATH_MAX], *text, *rest, *line;
	int status = 0, number = 0;
	size_t room = 0;

	json_object_object_add(request, "commands", b.list);
	rest = text = read_input(&room);
	if (!text)
		status = EXIT_FAILED;
	while (!status && (line = strsep(&rest, "\n")))
		status = add_line(&b, line, ++number);
	wiped_free(text, room);
	if (!status && b.count && control_choose(service, path) != 0)
		status = EXIT_FAILED;
	if (!status && b.count)
		status = do_change(path, request, b.lines, b.count);
	else
		config_drop(request);
	free(b.lines);
	return status;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Of a service without a configuration: paths are its command line's. */
static void make_paths_whole(struct json_object *doc, const char *cwd)
{
	struct object_path all = {.kind = OBJECT_SUBSYS, .list = true};
	struct json_object *subsystems = object_find(doc, &all);
	size_t n = config_length(subsystems);

	for (size_t i = 0; i < n; i++) {
		struct json_object *list =
			get(json_object_array_get_idx(subsystems, i), "namespaces");
		size_t m = config_length(list);

		for (size_t k = 0; k < m; k++) {
			struct json_object *device =
				get(json_object_array_get_idx(list, k), "device");
			const char *of = text_of(get(device, "path"));
			char text[2 * PATH_MAX];

			if (!of || !is_relative(of))
				continue;
			snprintf(text, sizeof(text), "%s/%s", cwd, of);
			json_object_object_add(device, "path", json_object_new_string(text));
		}
	}
}

/* What has to be told to a service that is to serve the file, besides. */
static void tell_options(struct json_object *answer, const char *file)
{
	struct json_object *list = get(answer, "options");
	size_t n = config_length(list);
	char text[512] = "";

	for (size_t i = 0; i < n; i++) {
		const char *option = text_of(json_object_array_get_idx(list, i));

		if (!option)
			continue;
		if (strcmp(option, "--dhchap-secret") == 0)
			cli_warn("%s: the keys that the service was given by --dhchap-secret are "
				 "not in it; `weft target set /hosts/NQN dhchap.key=@FILE` puts "
				 "one there",
				 file);
		else
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", option);
	}
	text_tame(text);
	printf("served by: weft serve --config %s%s\n", file, text);
}

static bool same_file(const char *a, const char *b)
{
	char x[PATH_MAX], y[PATH_MAX];

	return b && realpath(a, x) && realpath(b, y) && strcmp(x, y) == 0;
}

/* The service is told only if its own file has it all. */
static int tell_saved(const char *path, struct json_object *answer)
{
	struct json_object *request = control_ask("saved"), *done;
	char why[WHY_MAX];
	int status = 0;

	json_object_object_add(request, "edits", json_object_get(get(answer, "edits")));
	if (control_call(path, request, &done, why, sizeof(why)) != 0)
		status = cli_fail("%s", why);
	config_drop(done);
	return status;
}

static int write_text(struct json_object *doc)
{
	char *text = config_text(doc);
	bool done = text;

	if (text && isatty(STDOUT_FILENO))
		text_put_json(stdout, text);
	else if (text)
		fputs(text, stdout);
	done = done && fflush(stdout) == 0 && !ferror(stdout);
	wiped_free(text, text ? strlen(text) : 0);
	return done ? 0 : cli_fail("cannot write the document: %s", strerror(errno));
}

static int save(const struct target_opts *o, const char *path, struct json_object *answer)
{
	const char *own = text_of(get(answer, "config")), *cwd = text_of(get(answer, "cwd"));
	const char *file = o->edit.count ? o->edit.words[0] : own;
	struct json_object *doc = get(answer, "document");
	char why[WHY_MAX];

	if (!file)
		return cli_fail("the service was started without --config: name a file, `weft "
				"target save FILE`");
	/* Where he cannot write himself root would. */
	if (!o->edit.count && json_object_get_boolean(get(answer, CONTROL_OTHERS)))
		return cli_fail("%s: the service is another user's, and where it is saved is not "
				"for him to say: name a file, `weft target save FILE`",
				path);
	if (!own && cwd)
		make_paths_whole(doc, cwd);
	if (strcmp(file, "-") == 0)
		return write_text(doc);
	if (config_save(file, doc, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	if (!own)
		tell_options(answer, file);
	return same_file(file, own) ? tell_saved(path, answer) : 0;
}

static int do_save(const struct target_opts *o, const char *path)
{
	struct json_object *request = control_ask("show"), *answer;
	char why[WHY_MAX];
	int status;

	json_object_object_add(request, "secrets", json_object_new_boolean(true));
	if (control_call(path, request, &answer, why, sizeof(why)) != 0)
		status = cli_fail("%s", why);
	else
		status = has_document(answer, path) ? save(o, path, answer) : EXIT_FAILED;
	config_drop(answer);
	return status;
}

static int do_restore(const struct target_opts *o, const char *path)
{
	struct json_object *request, *doc;
	struct config *c = NULL;
	char why[WHY_MAX];

	if (config_load(o->edit.words[0], &doc, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	/* Its mistakes are told by where they stand in the file. */
	if (config_read(doc, &c, why, sizeof(why)) != 0) {
		config_drop(doc);
		return cli_fail("%s: %s", o->edit.words[0], why);
	}
	request = control_ask("restore");
	json_object_object_add(request, "document", c->doc);
	c->doc = NULL;
	config_free(c);
	return do_change(path, request, NULL, 0);
}

int cmd_target(int argc, char **argv)
{
	struct target_opts o = {0};
	char path[CONTROL_PATH_MAX];

	cli_parse(&argp, "target", argc, argv, &o);
	if (o.batch)
		return do_batch(o.service);
	if (control_choose(o.service, path) != 0)
		return EXIT_FAILED;
	switch (o.edit.verb) {
	case EDIT_LS:
		return do_ls(&o, path);
	case EDIT_SAVE:
		return do_save(&o, path);
	case EDIT_RESTORE:
		return do_restore(&o, path);
	default:
		return do_edit(&o, path);
	}
}
