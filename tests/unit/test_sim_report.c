/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What weft sim tells of a run: text, JSON, CSV and the page; of a result that is made up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli/plot.h"
#include "cli/sim_files.h"
#include "cli/sim_html.h"
#include "cli/sim_report.h"

enum { STEPS = 1500 };

static double half[] = {.5}, ramp[STEPS], sawtooth[STEPS], nothing[STEPS];
static struct scenario scenario;
static struct run_result result;
static struct expectation expect[2];
static struct run_verdict verdicts[2];
static struct run_group groups[2];
static struct run_flow flows[4];
static struct run_sizes sizes[2];
static struct run_port ports[12];
static char directory[64];

/* The simulator's own is not linked: what it would take is the whole network. */
const char *run_figure(size_t i, const char **ret_unit, const char **ret_text)
{
	static const char *const figures[][2] = {
		{"goodput", "Gb/s"}, {"fct_p50", "s"}, {"done", "part"}, {"fairness", "index"}};

	*ret_text = "";
	if (i >= ARRAY_SIZE(figures))
		return NULL;
	*ret_unit = figures[i][1];
	return figures[i][0];
}

static int begin(void **state)
{
	(void)state;
	for (int i = 0; i < STEPS; i++) {
		ramp[i] = i / 15.0;
		sawtooth[i] = i % 100 * 1024;
	}
	scenario = (struct scenario){.name = (char *)"incast",
				     .about = (char *)"<script>alert('x')</script> & more",
				     .warmup_ns = 100000,
				     .duration_ns = 1500000};
	expect[0] = (struct expectation){.figure = (char *)"goodput",
					 .of = (char *)"a,\"b\" <script>",
					 .published = (char *)"A Paper, fig. 8",
					 .least = -INFINITY,
					 .most = INFINITY,
					 .value = 100,
					 .within = 0.1,
					 .line = 12};
	expect[1] = (struct expectation){
		.figure = (char *)"fairness", .least = 0.9, .most = INFINITY, .value = NAN};
	verdicts[0] = (struct run_verdict){&expect[0], 95, true};
	verdicts[1] = (struct run_verdict){&expect[1], NAN, false};
	groups[0] = (struct run_group){.name = "a,\"b\" <script>",
				       .kind = "incast",
				       .flows = 3,
				       .done = 2,
				       .bytes = 1 << 20,
				       .goodput_gbps = 95,
				       .fairness = NAN,
				       .goodput = {ramp, STEPS},
				       .fairness_over_time = {half, 1}};
	groups[1] = (struct run_group){.name = "quiet", .kind = "stream", .goodput = {nothing, 0}};
	flows[0] = (struct run_flow){0, 1, 2, 1000, 10, 3000, 1000, false};
	flows[1] = (struct run_flow){0, 2, 3, 100000, 20, 90000, 10000, false};
	flows[2] = (struct run_flow){0, 3, 1, 100000, 30, 0, 10000, false};
	flows[3] = (struct run_flow){1, 3, 1, 5, 40, 0, 0, true};
	sizes[0] = (struct run_sizes){10240, 1, 3, 3, 3, 3000, 3500, 4000};
	sizes[1] = (struct run_sizes){UINT64_MAX, 1, 9, 9, INFINITY};
	for (size_t i = 0; i < 12; i++)
		ports[i] = (struct run_port){
			.name = (char *)"leaf -> host", .frames = 1, .queue_p50 = NAN};
	for (size_t i = 0; i < 10; i++)
		ports[i].queue_most = 4096 + i;
	ports[3] = (struct run_port){.name = (char *)"leaf1 -> host3",
				     .of_switch = true,
				     .queue_most = 99 * 1024,
				     .pauses_sent = 7,
				     .queue = {sawtooth, STEPS}};
	result = (struct run_result){
		.scenario = &scenario,
		.seed = 7,
		.step_ns = 1000,
		.totals = {.packets = 1234567, .ended_ns = 1500000, .wall_s = 2},
		.groups = groups,
		.ngroups = 2,
		.flows = flows,
		.nflows = 4,
		.sizes = sizes,
		.nsizes = 2,
		.ports = ports,
		.nports = 12,
		.verdicts = verdicts,
		.nverdicts = 2,
		.pauses = {sawtooth, STEPS},
		.marks = {nothing, STEPS}};
	snprintf(directory, sizeof(directory), "/tmp/weft-sim-report-XXXXXX");
	assert_non_null(mkdtemp(directory));
	return 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) == 0 ? 0 : -1;
}

/* A run in which nothing was, not even a step. */
static const struct run_result *empty(void)
{
	static struct run_result none;
	static struct scenario bare;

	bare = (struct scenario){0};
	none = (struct run_result){.scenario = &bare};
	return &none;
}

static char *report(const struct run_result *r, enum output_format format, bool all)
{
	char *text = NULL;
	size_t len;
	struct output o;
	FILE *f = open_memstream(&text, &len);

	output_init(&o, f, format);
	assert_true(sim_report(&o, r, all));
	assert_true(output_finish(&o));
	fclose(f);
	return text;
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0 || feof(f));
	fclose(f);
	return text;
}

static char *page(const struct run_result *r)
{
	char err[256];

	assert_int_equal(sim_html(path_of("page.html"), r, err, sizeof(err)), 0);
	return slurp(path_of("page.html"));
}

static struct json_object *at(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v))
		fail_msg("JSON has no %s", key);
	return v;
}

/* Every element that begins ends, in its order, and attributes are quoted. */
static void well_formed(const char *text)
{
	char open[32][24];
	int depth = 0;

	for (const char *p = strchr(text, '<'); p; p = strchr(p, '<')) {
		bool closing = p[1] == '/';
		size_t len = strcspn(p + 1 + closing, " />\n");
		const char *q = p;

		if (p[1] == '!') {
			p++;
			continue;
		}
		assert_true(len > 0 && len < sizeof(open[0]));
		for (bool quoted = false; *q != '>' || quoted; q++) {
			assert_int_not_equal(*q, 0);
			assert_false(*q == '<' && q != p);
			quoted ^= *q == '"';
		}
		if (closing) {
			assert_true(depth-- > 0);
			assert_int_equal(strncmp(open[depth], p + 2, len), 0);
			assert_int_equal(open[depth][len], 0);
		} else if (q[-1] != '/') {
			assert_true(depth < 32);
			snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)len, p + 1);
		}
		p = q;
	}
	assert_int_equal(depth, 0);
}

/* No figure that is no number, in whatever way printf() writes it. */
static void only_numbers(const char *text)
{
	static const char *const words[] = {"nan", "NaN", "inf", "Infinity"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (const char *p = strstr(text, words[i]); p; p = strstr(p + 1, words[i]))
			if (p == text || !strchr("abcdefghijklmnopqrstuvwxyz", p[-1]))
				fail_msg("%s: %.40s", words[i], p);
}

static void json_has_the_whole_result(void **state)
{
	char *text = report(&result, OUTPUT_JSON, false);
	struct json_object *o = json_tokener_parse(text), *g, *p, *v;

	(void)state;
	assert_non_null(o);
	assert_string_equal(json_object_get_string(at(o, "scenario")), "incast");
	assert_string_equal(json_object_get_string(at(o, "about")), scenario.about);
	assert_int_equal(json_object_get_int64(at(o, "seed")), 7);
	assert_int_equal(json_object_get_int64(at(o, "virtual_ns")), 1500000);
	assert_int_equal(json_object_get_int64(at(o, "step_ns")), 1000);
	assert_int_equal(json_object_array_length(at(o, "groups")), 2);
	g = json_object_array_get_idx(at(o, "groups"), 0);
	assert_string_equal(json_object_get_string(at(g, "name")), groups[0].name);
	assert_int_equal(json_object_get_int64(at(g, "bytes")), 1 << 20);
	assert_int_equal(json_object_array_length(at(g, "goodput_gbps_by_step")), STEPS);
	assert_int_equal(json_object_array_length(at(g, "fairness_by_step")), 1);
	assert_false(json_object_object_get_ex(g, "fairness", NULL)); /* it is none */
	assert_int_equal(json_object_array_length(at(o, "slowdown")), 2);
	assert_int_equal(json_object_array_length(at(o, "ports")), 12); /* not those eight alone */
	p = json_object_array_get_idx(at(o, "ports"), 3);
	assert_int_equal(json_object_get_int64(at(p, "pauses_sent")), 7);
	v = json_object_array_get_idx(at(p, "queue_bytes_by_step"), 99);
	assert_true(json_object_is_type(v, json_type_int));
	assert_int_equal(json_object_get_int64(v), 99 * 1024);
	assert_int_equal(json_object_array_length(at(o, "pauses_by_step")), STEPS);
	assert_int_equal(json_object_get_int64(at(at(o, "totals"), "packets")), 1234567);
	assert_false(json_object_get_boolean(at(o, "all_met")));
	v = json_object_array_get_idx(at(o, "verdicts"), 0);
	assert_true(json_object_get_boolean(at(v, "met")));
	assert_string_equal(json_object_get_string(at(v, "published")), "A Paper, fig. 8");
	assert_false(json_object_object_get_ex(v, "least", NULL)); /* there is no limit */
	v = json_object_array_get_idx(at(o, "verdicts"), 1);
	assert_false(json_object_object_get_ex(v, "got", NULL));
	assert_null(strstr(text, "wall")); /* two runs of one seed say the same */
	only_numbers(text);
	json_object_put(o);
	free(text);
}

static void figures_have_their_units(void **state)
{
	struct json_object *o, *v;
	char *text;

	(void)state;
	expect[0] = (struct expectation){
		.figure = (char *)"fct_p50", .least = -INFINITY, .most = 20e-6, .value = NAN};
	expect[1] = (struct expectation){
		.figure = (char *)"done", .least = 0.5, .most = INFINITY, .value = NAN};
	verdicts[0].got = 12.5e-6;
	verdicts[1].got = 0.25;
	text = report(&result, OUTPUT_TEXT, false);
	assert_non_null(strstr(text, "fct_p50: 12.5 µs, expected at most 20.0 µs\n"));
	assert_non_null(strstr(text, "done: 25 %, expected at least 50 %\n"));
	free(text);
	text = report(&result, OUTPUT_JSON, false);
	o = json_tokener_parse(text);
	v = json_object_array_get_idx(at(o, "verdicts"), 0);
	assert_string_equal(json_object_get_string(at(v, "unit")), "ns");
	assert_true(fabs(json_object_get_double(at(v, "got")) - 12500) < 1);
	json_object_put(o);
	free(text);
}

static void text_shows_what_says_most(void **state)
{
	char *text = report(&result, OUTPUT_TEXT, false), *all;

	(void)state;
	assert_non_null(strstr(text, "8 of 10"));
	assert_non_null(strstr(text, "expected: 1 of 2 met"));
	assert_non_null(strstr(text, "met      goodput of"));
	assert_non_null(
		strstr(text, "95 Gb/s, expected 90 Gb/s to 110 Gb/s (100 Gb/s within 10 %)"));
	assert_non_null(strstr(text, "NOT MET  fairness: -, expected at least 0.9"));
	assert_non_null(strstr(text, "published: A Paper, fig. 8"));
	assert_non_null(strstr(text, "leaf1 -> host3   0 B     101.4 KB"));
	only_numbers(text);
	all = report(&result, OUTPUT_TEXT, true);
	assert_true(strlen(all) > strlen(text));
	assert_null(strstr(all, "8 of 10"));
	free(all);
	free(text);
}

static void speed_is_apart(void **state)
{
	char *text = NULL;
	size_t len;
	struct output o;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	output_init(&o, f, OUTPUT_TEXT);
	sim_report_speed(&o, &result);
	sim_report_speed(&o, empty());
	assert_true(output_finish(&o));
	fclose(f);
	assert_non_null(strstr(text, "617284 packets a second, 2.00 s in all"));
	only_numbers(text);
	free(text);
}

static void the_page_shows_text_of_others_as_text(void **state)
{
	char *text = page(&result);

	(void)state;
	assert_null(strstr(text, "<script"));
	assert_non_null(strstr(text, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; more"));
	assert_non_null(strstr(text, "a,&quot;b&quot; &lt;script&gt;"));
	assert_non_null(strstr(text, "<td>1</td>")); /* and is not empty */
	assert_null(strstr(text, "http:"));
	assert_null(strstr(text, "https:"));
	well_formed(text);
	only_numbers(text);
	free(text);
}

static void the_page_says_in_words_what_was_met(void **state)
{
	char *text = page(&result);

	(void)state;
	assert_non_null(strstr(text, "Met:</strong>"));
	assert_non_null(strstr(text, "Not met:</strong>"));
	assert_non_null(strstr(text, "A Paper, fig. 8"));
	assert_non_null(strstr(text, "Goodput over time"));
	assert_non_null(strstr(text, "Queues over time"));
	assert_non_null(strstr(text, "Slowdown by flow size</h3>"));
	assert_non_null(strstr(text, "Flow completion times"));
	assert_non_null(strstr(text, "Pauses over time"));
	assert_null(strstr(text, "Marks over time")); /* there were none */
	free(text);
}

static void a_run_of_nothing_has_reports(void **state)
{
	char *text = report(empty(), OUTPUT_JSON, false), err[256];
	struct json_object *o = json_tokener_parse(text);

	(void)state;
	assert_non_null(o);
	only_numbers(text);
	json_object_put(o);
	free(text);
	text = report(empty(), OUTPUT_TEXT, true);
	only_numbers(text);
	free(text);
	text = page(empty());
	assert_null(strstr(text, "<svg"));
	assert_non_null(strstr(text, "Nothing was sent"));
	well_formed(text);
	only_numbers(text);
	free(text);
	assert_int_equal(sim_files_csv(directory, empty(), err, sizeof(err)), 0);
	text = slurp(path_of("groups.csv"));
	assert_string_equal(text, "time_ns\n");
	free(text);
}

static void csv_quotes(void **state)
{
	char err[256], *text, *line;

	(void)state;
	assert_int_equal(sim_files_csv(path_of("new"), &result, err, sizeof(err)), 0);
	text = slurp(path_of("new/flows.csv"));
	assert_non_null(
		strstr(text, "\n\"a,\"\"b\"\" <script>\",1,2,1000,10,3000,1000,3.0000,0\n"));
	assert_non_null(strstr(text, ",3,1,100000,30,,10000,,0\n")); /* not done */
	free(text);
	text = slurp(path_of("new/groups.csv"));
	assert_int_equal(strncmp(text, "time_ns,\"a,\"\"b\"\" <script>\",quiet\n0,0,\n", 38), 0);
	free(text);
	text = slurp(path_of("new/queues.csv"));
	assert_int_equal(strncmp(text, "time_ns,leaf1 -> host3\n0,0\n1000,1024\n", 37), 0);
	free(text);
	text = slurp(path_of("new/ports.csv"));
	line = strchr(text, '\n');
	assert_non_null(line);
	assert_int_equal(strncmp(line, "\nleaf -> host,0,1,0,4096,,0,0,", 30), 0);
	only_numbers(text);
	free(text);
	text = slurp(path_of("new/slowdown.csv"));
	assert_string_equal(text, "most_bytes,flows,p50,p95,p99,fct_p50_ns,fct_p95_ns,fct_p99_ns\n"
				  "10240,1,3,3,3,3000,3500,4000\n"
				  "18446744073709551615,1,9,9,,0,0,0\n");
	free(text);
	text = slurp(path_of("new/fairness.csv"));
	assert_non_null(strstr(text, "\n0,0.5,\n"));
	free(text);
}

static void what_cannot_be_written_is_named(void **state)
{
	char err[256];
	FILE *f;

	(void)state;
	assert_int_equal(sim_files_csv("/dev/null/x", &result, err, sizeof(err)), -ENOTDIR);
	assert_non_null(strstr(err, "/dev/null/x"));
	assert_non_null(strstr(err, "Not a directory"));
	f = fopen(path_of("file"), "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(sim_files_csv(path_of("file"), &result, err, sizeof(err)), -ENOTDIR);
	assert_non_null(strstr(err, path_of("file")));
	assert_int_equal(sim_html(path_of("none/page.html"), &result, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "none/page.html"));
	assert_int_equal(sim_html("/dev/full", &result, err, sizeof(err)), -ENOSPC);
	assert_non_null(strstr(err, "/dev/full"));
}

static void a_page_that_failed_leaves_nothing(void **state)
{
	char err[256], *text;
	struct stat st;

	(void)state;
	/* A directory is in its place, which no file can take. */
	assert_int_equal(mkdir(path_of("taken"), 0700), 0);
	assert_int_not_equal(sim_html(path_of("taken"), &result, err, sizeof(err)), 0);
	assert_int_equal(rmdir(path_of("taken")), 0);
	assert_int_equal(rmdir(directory), 0); /* and nothing else is there */
	assert_int_equal(mkdir(directory, 0700), 0);
	/* A link stays one. */
	assert_int_equal(close(open(path_of("real.html"), O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(symlink("real.html", path_of("page.html")), 0);
	text = page(&result);
	free(text);
	assert_int_equal(lstat(path_of("page.html"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

static char *plotted(const struct plot *p, bool *ret)
{
	static char *text; /* what the stream writes to, as long as there is one */
	static size_t len;
	FILE *f = open_memstream(&text, &len);

	*ret = plot_put(f, p);
	fclose(f);
	return text;
}

static size_t points_of(const char *text)
{
	const char *line = strstr(text, "plot-c0");
	size_t n = 0;

	assert_non_null(line);
	for (line = strstr(line, " d=\""); *line != '>'; line++)
		n += *line == 'L' || *line == 'M' || *line == 'H';
	return n;
}

static void a_plot_of_no_point_is_none(void **state)
{
	static const double none[] = {NAN, INFINITY, -INFINITY}, zero[] = {0, 0, 0};
	const struct plot_series series[] = {{.name = "none", .y = none, .n = 3, .x_step = 1},
					     {.name = "zero", .y = zero, .n = 3, .x_step = 1}};
	struct plot p = {.title = "t", .x.label = "x", .y.label = "y", .series = series};
	bool drawn;
	char *text = plotted(&p, &drawn);

	(void)state;
	assert_false(drawn);
	assert_string_equal(text, "");
	free(text);
	p.nseries = 1;
	text = plotted(&p, &drawn);
	assert_false(drawn);
	free(text);
	p.nseries = 2;
	p.y.scale = PLOT_LOG; /* which has no 0 */
	text = plotted(&p, &drawn);
	assert_false(drawn);
	free(text);
	p.y.scale = PLOT_LINEAR;
	text = plotted(&p, &drawn);
	assert_true(drawn);
	well_formed(text);
	only_numbers(text);
	free(text);
}

static void many_points_become_few_that_keep_the_extremes(void **state)
{
	static double y[100000];
	const struct plot_series series = {.name = "s", .y = y, .n = 100000, .x_step = 1};
	struct plot p = {
		.title = "t", .x.label = "x", .y.label = "y", .series = &series, .nseries = 1};
	bool drawn;
	char *text;

	(void)state;
	for (int i = 0; i < 100000; i++)
		y[i] = 50 + i % 2;
	y[33333] = 100; /* one spike, at the upper edge of the picture */
	text = plotted(&p, &drawn);
	assert_true(drawn);
	assert_true(points_of(text) <= PLOT_POINTS_MAX + 1);
	assert_non_null(strstr(strstr(text, "plot-c0"), " 30.0L"));
	well_formed(text);
	free(text);
}

static void extreme_ranges_are_drawn(void **state)
{
	static const double ranges[][3] = {
		{1, 1, 1},  {1e-300, 2e-300, 1e-320}, {1e300, 1, 2},	  {1e99, 1, 1e-99},
		{-5, 3, 0}, {1e20, 1e20 + 1e5, 1e20}, {1023, 1024, 1025}, {DBL_MAX, -DBL_MAX, 0}};
	static const double x[] = {1, 1.0000001, 1e18};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		for (int kind = 0; kind < 2 * (PLOT_PART + 1); kind++) {
			const struct plot_series series = {
				.name = "s", .x = x, .y = ranges[i], .n = 3};
			const struct plot p = {
				.title = "t",
				.x = {.label = "x", .scale = PLOT_LOG, .unit = PLOT_NS},
				.y = {.label = "y",
				      .scale = kind % 2 ? PLOT_LOG : PLOT_LINEAR,
				      .unit = (enum plot_unit)(kind / 2)},
				.step = kind % 3 == 0,
				.series = &series,
				.nseries = 1};
			bool drawn;
			char *text = plotted(&p, &drawn);

			if (drawn)
				assert_non_null(strstr(text, "plot-y"));
			well_formed(text);
			only_numbers(text);
			free(text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(json_has_the_whole_result, begin, end),
		cmocka_unit_test_setup_teardown(figures_have_their_units, begin, end),
		cmocka_unit_test_setup_teardown(text_shows_what_says_most, begin, end),
		cmocka_unit_test_setup_teardown(speed_is_apart, begin, end),
		cmocka_unit_test_setup_teardown(the_page_shows_text_of_others_as_text, begin, end),
		cmocka_unit_test_setup_teardown(the_page_says_in_words_what_was_met, begin, end),
		cmocka_unit_test_setup_teardown(a_run_of_nothing_has_reports, begin, end),
		cmocka_unit_test_setup_teardown(csv_quotes, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_written_is_named, begin, end),
		cmocka_unit_test_setup_teardown(a_page_that_failed_leaves_nothing, begin, end),
		cmocka_unit_test(a_plot_of_no_point_is_none),
		cmocka_unit_test(many_points_become_few_that_keep_the_extremes),
		cmocka_unit_test(extreme_ranges_are_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
