/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whose a letter is: the verb's beside a URI, of `nvme connect` without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/nvme_verb.h"

#define URI  "nvme+tcp://192.0.2.7/nqn.a:b"
#define CTRL "-t", "tcp", "-a", "192.0.2.7"

/* Verbs of nvme-cli take these letters, each another set of them. */
struct verb {
	struct nvme_opts opts;
	uint64_t start, count, offset;
	bool save, latency;
};

static const struct argp_option options[] = {
	NVME_VERB_NSID,
	{"start-block", 's', "LBA", 0, "", 0},
	{"block-count", 'c', "N", 0, "", 0},
	{"count", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"save", 'g', NULL, 0, "", 0},
	{"offset", 'o', "N", 0, "", 0},
	{"latency", 't', NULL, 0, "", 0},
	NVME_VERB_ZERO("dir-spec", 'S'),
	NVME_VERB_NOT("storage-tag-check", 'C'),
	NVME_VERB_IDLE("force", 'F'),
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->opts;
		return 0;
	case 's':
		v->start = cli_parse_size(state, "--start-block", arg, 0, UINT64_MAX);
		return 0;
	case 'c':
		v->count = cli_parse_number(state, "--block-count", arg, 0, UINT16_MAX);
		return 0;
	case 'g':
		v->save = true;
		return 0;
	case 'o':
		if (!nvme_verb_took_format(&v->opts, state, arg))
			v->offset = cli_parse_number(state, "--offset", arg, 0, UINT32_MAX);
		return 0;
	case 't':
		v->latency = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_words(struct verb *v, const char *const *words)
{
	static const struct argp argp = {
		.options = options, .parser = parse, .children = nvme_opts_children};
	static char copies[32][128];
	char *argv[33] = {(char[]){"verb"}};
	int argc = 1;

	for (; words[argc - 1]; argc++) {
		snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc - 1]);
		argv[argc] = copies[argc];
	}
	*v = (struct verb){0};
	nvme_opts_init(&v->opts, NVME_OPTS_NAMESPACE);
	nvme_verb_parse(&argp, "verb", argc, argv, v);
}

#define PARSE(v, ...) parse_words(v, (const char *const[]){__VA_ARGS__, NULL})

/* What is said of wrong usage, which ends the program with 2. */
static char *said_of(const char *const *words)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;
	int ends[2], status;
	struct verb v;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		parse_words(&v, words);
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 2)
		fail_msg("status %#x, not 2, for %s: %s", status, words[0], text);
	return text;
}

static void wrong(const char *part, const char *const *words)
{
	char *said = said_of(words);

	if (!strstr(said, part))
		fail_msg("no '%s' in '%s'", part, said);
}
#define WRONG(part, ...) wrong(part, (const char *const[]){__VA_ARGS__, NULL})

static void beside_a_uri_letters_are_the_verbs(void **state)
{
	struct verb v;

	(void)state;
	PARSE(&v, URI, "-n", "1", "-s", "0x10", "-c", "7", "-t", "-g", "-S", "0");
	assert_int_equal(v.opts.uri.nsid, 1);
	assert_int_equal(v.start, 16);
	assert_int_equal(v.count, 7);
	assert_true(v.latency && v.save);
	assert_false(v.opts.header_digest);
	assert_string_equal(v.opts.uri.port, "");
	assert_string_equal(v.opts.uri.nqn, "nqn.a:b");
	assert_int_equal(v.opts.reconnect_delay_s, 1);

	/* Wherever it stands, and with the letters of the connection that the verb has not. */
	PARSE(&v, "-s", "1k", "-q", "nqn.host", "-n1", "-k", "5", URI, "-F");
	assert_int_equal(v.start, 1024);
	assert_int_equal(v.opts.uri.nsid, 1);
	assert_int_equal(v.opts.keep_alive_s, 5);
	assert_string_equal(v.opts.uri.hostnqn, "nqn.host");
}

static void without_a_uri_letters_are_the_connections(void **state)
{
	struct verb v;

	(void)state;
	PARSE(&v, CTRL, "-n", "nqn.a:b", "-s", "4421", "-g", "-N", "3", "--start-block", "5",
	      "--block-count=6", "--latency");
	assert_string_equal(v.opts.uri.host, "192.0.2.7");
	assert_string_equal(v.opts.uri.port, "4421");
	assert_string_equal(v.opts.uri.nqn, "nqn.a:b");
	assert_true(v.opts.header_digest);
	assert_int_equal(v.opts.uri.nsid, 3);
	assert_int_equal(v.start, 5);
	assert_int_equal(v.count, 6);
	assert_true(v.latency);
	assert_false(v.save);
}

static void long_words_mean_the_same_either_way(void **state)
{
	struct verb v;

	(void)state;
	PARSE(&v, URI, "--trsvcid=4421", "--namespace-id=2", "--reconnect-delay=9", "--save");
	assert_string_equal(v.opts.uri.port, "4421");
	assert_int_equal(v.opts.uri.nsid, 2);
	assert_int_equal(v.opts.reconnect_delay_s, 9);
	assert_true(v.save);
	PARSE(&v, URI, "--count=4");
	assert_int_equal(v.count, 4);
	PARSE(&v, CTRL, "-n", "nqn.a:b", "--count=4");
	assert_int_equal(v.count, 4);
	PARSE(&v, CTRL, "-n", "nqn.a:b", "--namespace-id=0xffffffff", "--reconnect-delay=9",
	      "--save");
	assert_int_equal(v.opts.uri.nsid, 0xffffffff);
	assert_int_equal(v.opts.reconnect_delay_s, 9);
	assert_true(v.save);
}

static void minus_o_is_a_number_or_a_form(void **state)
{
	struct verb v;

	(void)state;
	PARSE(&v, URI, "-o", "0x14", "-o", "json");
	assert_int_equal(v.offset, 0x14);
	assert_int_equal(v.opts.format, OUTPUT_JSON);
	PARSE(&v, CTRL, "-n", "nqn.a:b", "-o", "8", "--output-format=json");
	assert_int_equal(v.offset, 8);
	assert_int_equal(v.opts.format, OUTPUT_JSON);
	WRONG("--offset takes a number", URI, "-o", "xml");
	WRONG("no binary form", URI, "-o", "binary");
}

static void who_meant_the_connection_is_told(void **state)
{
	char *said;

	(void)state;
	WRONG("--nqn", URI, "-n", "nqn.c:d");
	WRONG("--dhchap-secret", URI, "-S", "@/etc/key");
	said = said_of((const char *const[]){URI, "-S", "DHHC-1:00:c2VjcmV0:", NULL});
	assert_non_null(strstr(said, "--dhchap-secret"));
	assert_null(strstr(said, "c2VjcmV0"));
	said = said_of((const char *const[]){URI, "DHHC-1:00:c2VjcmV0:", NULL});
	assert_null(strstr(said, "c2VjcmV0"));
	WRONG("'/dev/nvme0' is no target: a URI begins", "/dev/nvme0", "-n", "1");
}

static void who_meant_the_verb_is_told(void **state)
{
	(void)state;
	WRONG("--namespace-id", CTRL, "-n", "1");
	WRONG("--start-block", CTRL, "-n", "nqn.a:b", "-s", "0");
	WRONG("--start-block", CTRL, "-n", "nqn.a:b", "-s", "4420", "-s", "5");
	WRONG("--block-count", CTRL, "-n", "nqn.a:b", "-c", "7");
	WRONG("which namespace?", "--start-block", "7");
}

static void what_is_not_sent_is_not_taken(void **state)
{
	struct verb v;

	(void)state;
	PARSE(&v, URI, "-S", "0x0", "--dir-spec=0");
	WRONG("--dir-spec: weft sends no", URI, "-S", "5");
	WRONG("--dir-spec: weft sends no", URI, "-S", "x");
	WRONG("--storage-tag-check: weft sends no", URI, "-C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(beside_a_uri_letters_are_the_verbs),
		cmocka_unit_test(without_a_uri_letters_are_the_connections),
		cmocka_unit_test(long_words_mean_the_same_either_way),
		cmocka_unit_test(minus_o_is_a_number_or_a_form),
		cmocka_unit_test(who_meant_the_connection_is_told),
		cmocka_unit_test(who_meant_the_verb_is_told),
		cmocka_unit_test(what_is_not_sent_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
