/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The text for Prometheus, read by a small parser of its form. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/metrics_text.h"

static struct target_figures figures;
static struct figures_host_row hosts[FIGURES_HOSTS];
static struct figures_op_row ops[FIGURES_OPS];
static struct figures_error_row errors[FIGURES_ERRORS];
static struct figures_queue_row queues[FIGURES_QUEUES];
static struct figures_queue_error_row queue_errors[FIGURES_QUEUE_ERRORS];
static struct figures_reason_row reasons[FIGURES_REASONS];
static struct target_counters counters;

static int begin(void **state)
{
	(void)state;
	memset(hosts, 0, sizeof(hosts));
	memset(ops, 0, sizeof(ops));
	memset(errors, 0, sizeof(errors));
	memset(queues, 0, sizeof(queues));
	memset(queue_errors, 0, sizeof(queue_errors));
	memset(reasons, 0, sizeof(reasons));
	counters = (struct target_counters){.commands = 7};
	figures.hosts = hosts;
	figures.ops = ops;
	figures.errors = errors;
	figures.queues = queues;
	figures.queue_errors = queue_errors;
	figures.reasons = reasons;
	figures_init(&figures);
	return 0;
}

/* --- the form: https://prometheus.io/docs/instrumenting/exposition_formats ------------------- */

struct form {
	const char *p;
	char family[128], type[16];
	char seen[64][128]; /* families, each of which is told of once */
	size_t families, samples;
};

static size_t name_length(const char *p)
{
	size_t n = 0;

	while (isalpha((unsigned char)p[n]) || p[n] == '_' || p[n] == ':' ||
	       (n && isdigit((unsigned char)p[n])))
		n++;
	return n;
}

static void take(struct form *f, const char *text)
{
	assert_int_equal(strncmp(f->p, text, strlen(text)), 0);
	f->p += strlen(text);
}

static void take_comment(struct form *f)
{
	size_t n;

	take(f, "# ");
	if (strncmp(f->p, "HELP ", 5) == 0) {
		f->p += 5;
		n = name_length(f->p);
		assert_true(n && n < sizeof(f->family) && f->p[n] == ' ');
		memcpy(f->family, f->p, n);
		f->family[n] = '\0';
		for (size_t i = 0; i < f->families; i++)
			assert_string_not_equal(f->seen[i], f->family);
		assert_true(f->families < 64);
		strcpy(f->seen[f->families++], f->family);
		f->p = strchr(f->p, '\n');
	} else {
		take(f, "TYPE ");
		take(f, f->family);
		take(f, " ");
		n = strcspn(f->p, "\n");
		assert_true(n < sizeof(f->type));
		memcpy(f->type, f->p, n);
		f->type[n] = '\0';
		assert_true(strcmp(f->type, "counter") == 0 || strcmp(f->type, "gauge") == 0 ||
			    strcmp(f->type, "histogram") == 0);
		f->p += n;
	}
	assert_non_null(f->p);
	take(f, "\n");
}

static void take_value(struct form *f)
{
	take(f, "\"");
	while (*f->p != '"') {
		assert_true((unsigned char)*f->p >= ' ');
		if (*f->p == '\\') {
			f->p++;
			assert_true(*f->p == '"' || *f->p == '\\' || *f->p == 'n');
		}
		f->p++;
	}
	take(f, "\"");
}

static void take_sample(struct form *f)
{
	size_t n = name_length(f->p), family = strlen(f->family);
	char *end;

	assert_true(n >= family && memcmp(f->p, f->family, family) == 0);
	if (n > family) {
		assert_string_equal(f->type, "histogram");
		assert_true(strncmp(f->p + family, "_bucket", 7) == 0 ||
			    strncmp(f->p + family, "_sum", 4) == 0 ||
			    strncmp(f->p + family, "_count", 6) == 0);
	}
	if (strcmp(f->type, "counter") == 0)
		assert_memory_equal(f->family + family - 6, "_total", 6);
	f->p += n;
	if (*f->p == '{') {
		f->p++;
		while (*f->p != '}') {
			n = name_length(f->p);
			assert_true(n);
			f->p += n;
			take(f, "=");
			take_value(f);
			if (*f->p == ',')
				f->p++;
		}
		f->p++;
	}
	take(f, " ");
	assert_true(strtod(f->p, &end) >= 0);
	assert_ptr_not_equal(f->p, end);
	f->p = end;
	take(f, "\n");
	f->samples++;
}

static size_t samples_of(const char *page)
{
	struct form f = {.p = page};

	while (*f.p)
		if (*f.p == '#')
			take_comment(&f);
		else
			take_sample(&f);
	return f.samples;
}

/* The page, whose form is looked at. */
static char *page(void)
{
	const struct target_figures *const all = &figures;
	struct served v;
	size_t len;
	char *text;

	assert_true(served_here(&all, 1, &v));
	text = metrics_page(&v, &counters, &len);
	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_true(samples_of(text) > 0);
	return text;
}

static void has(const char *text, const char *line)
{
	char with[1024];

	snprintf(with, sizeof(with), "\n%s\n", line);
	if (!strstr(text, with))
		fail_msg("no line %s in\n%s", line, text);
}

static void name(uint16_t row, const char *subsystem, const char *host)
{
	hosts[row].in_use = 1;
	strcpy((char *)hosts[row].subsystem, subsystem);
	strcpy((char *)hosts[row].host, host);
}

/* --- cases ----------------------------------------------------------------------------------- */

static void what_is_counted_is_there(void **state)
{
	char *text;

	(void)state;
	name(1, "nqn.s", "nqn.h");
	hosts[1].tcp = 3;
	ops[1] = (struct figures_op_row){.host = 1,
					 .nsid = 2,
					 .opcode = NVME_IO_READ,
					 .commands = 5,
					 .bytes = 4096,
					 .latency_ns = 1500000000,
					 .bucket = {[1] = 3, [20] = 1}};
	errors[1] = (struct figures_error_row){.host = 1,
					       .nsid = 2,
					       .opcode = NVME_IO_READ,
					       .status = NVME_SC_LBA_RANGE,
					       .count = 2};
	queues[1] = (struct figures_queue_row){.host = 1,
					       .cntlid = 9,
					       .qid = 4,
					       .trtype = NVMF_TRTYPE_TCP,
					       .entries = 32,
					       .commands = 5,
					       .other_errors = 1,
					       .latency_ns = 2500000000,
					       .bucket = {[0] = 1, [2] = 2, [7] = 1}};
	queues[2] = queues[1]; /* one that has not worked */
	queues[2].qid = 5;
	queues[2].commands = queues[2].other_errors = 0;
	queue_errors[1] = (struct figures_queue_error_row){
		.queue = 1, .status = NVME_SC_LBA_RANGE, .count = 2};
	queue_errors[2] =
		(struct figures_queue_error_row){.queue = 1, .io = 1, .status = 0x182, .count = 3};
	queue_errors[3] =
		(struct figures_queue_error_row){.queue = 1, .io = 0, .status = 0x182, .count = 4};
	queue_errors[4] =
		(struct figures_queue_error_row){.queue = 3, .count = 9}; /* it has gone */
	queue_errors[5] = (struct figures_queue_error_row){.queue = UINT64_MAX, .count = 9};
	figures_refused(&figures, "no resources");
	text = page();
#define LABELS "subsystem=\"nqn.s\",host=\"nqn.h\""
#define READ   LABELS ",nsid=\"2\",opcode=\"read\""
	has(text, "weft_nvmf_target_commands_total 7");
	has(text, "weft_nvmf_connections{" LABELS ",transport=\"tcp\"} 3");
	has(text, "weft_nvmf_commands_total{" READ "} 5");
	has(text, "weft_nvmf_data_bytes_total{" READ "} 4096");
	has(text, "weft_nvmf_command_errors_total{" READ ",status=\"LBA Out of Range\"} 2");
	has(text, "weft_nvmf_command_duration_seconds_bucket{" READ ",le=\"0.000004096\"} 0");
	has(text, "weft_nvmf_command_duration_seconds_bucket{" READ ",le=\"0.000008192\"} 3");
	has(text, "weft_nvmf_command_duration_seconds_bucket{" READ ",le=\"2.147483648\"} 3");
	has(text, "weft_nvmf_command_duration_seconds_bucket{" READ ",le=\"+Inf\"} 4");
	has(text, "weft_nvmf_command_duration_seconds_sum{" READ "} 1.500000000");
	has(text, "weft_nvmf_command_duration_seconds_count{" READ "} 4");
#define QUEUE LABELS ",controller=\"9\",queue=\"4\",transport=\"tcp\""
#define TIMES "weft_nvmf_queue_command_duration_seconds"
	has(text, "weft_nvmf_queue_commands_total{" QUEUE "} 5");
	has(text, "weft_nvmf_queue_command_errors_total{" QUEUE ",status=\"LBA Out of Range\"} 2");
	has(text, "weft_nvmf_queue_command_errors_total{" QUEUE
		  ",status=\"Attempted Write to Read Only Range\"} 3");
	has(text, "weft_nvmf_queue_command_errors_total{" QUEUE
		  ",status=\"Connect Invalid Parameters\"} 4");
	has(text, "weft_nvmf_queue_command_errors_total{" QUEUE ",status=\"other\"} 1");
	assert_null(strstr(text, "} 9\n"));
	has(text, TIMES "_bucket{" QUEUE ",le=\"0.000016384\"} 1");
	has(text, TIMES "_bucket{" QUEUE ",le=\"0.000065536\"} 1");
	has(text, TIMES "_bucket{" QUEUE ",le=\"0.000262144\"} 3");
	has(text, TIMES "_bucket{" QUEUE ",le=\"0.067108864\"} 3");
	has(text, TIMES "_bucket{" QUEUE ",le=\"+Inf\"} 4");
	has(text, TIMES "_sum{" QUEUE "} 2.500000000");
	has(text, TIMES "_count{" QUEUE "} 4");
	assert_null(strstr(text, "queue=\"5\",transport=\"tcp\",le="));
	has(text, "weft_nvmf_connects_failed_total{reason=\"no resources\"} 1");
	free(text);
}

static void names_are_escaped(void **state)
{
	static const struct {
		const char *nqn, *label;
	} cases[] = {
		{"nqn.\"quoted\"", "nqn.\\\"quoted\\\""},
		{"nqn.back\\slash\\", "nqn.back\\\\x5cslash\\\\x5c"},
		{"nqn.line\nfeed", "nqn.line\\\\x0afeed"},
		{"nqn.tab\tand\x7f", "nqn.tab\\\\x09and\\\\x7f"},
		{"nqn.\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x84",
		 "nqn.\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x84"},
		{"nqn.\xff\xc3", "nqn.\\\\xff\\\\xc3"},
		{"nqn.\xc2\x9b"
		 "31m",
		 "nqn.\\\\xc2\\\\x9b"
		 "31m"},					   /* a control character */
		{"nqn.\xc0\xaf", "nqn.\\\\xc0\\\\xaf"},		   /* "/" in two bytes */
		{"nqn.\xed\xa0\x80", "nqn.\\\\xed\\\\xa0\\\\x80"}, /* a surrogate */
		{"nqn.\xf4\x90\x80\x80", "nqn.\\\\xf4\\\\x90\\\\x80\\\\x80"},
		{"nqn.}\"} 1", "nqn.}\\\"} 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char want[256], *text;

		begin(NULL);
		name(1, "nqn.s", cases[i].nqn);
		hosts[1].rdma = 1;
		snprintf(
			want, sizeof(want),
			"weft_nvmf_connections{subsystem=\"nqn.s\",host=\"%s\",transport=\"rdma\"} "
			"1",
			cases[i].label);
		text = page();
		has(text, want);
		free(text);
	}
}

static void nothing_counted_is_a_page_too(void **state)
{
	char *text = page();

	(void)state;
	assert_null(strstr(text, "nsid="));
	free(text);
}

static void the_fullest_page_is_of_the_form(void **state)
{
	char nqn[64];
	char *text;

	(void)state;
	for (uint16_t i = 1; i < FIGURES_HOSTS; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.%u\"\\", i);
		name(i, "nqn.s", nqn);
		hosts[i].rdma = hosts[i].other = 1;
	}
	for (uint16_t i = 1; i < FIGURES_OPS; i++)
		ops[i] = (struct figures_op_row){.host = i % 1000u, /* some there are none of */
						 .opcode = i % 0x400u,
						 .nsid = i % 300u,
						 .commands = UINT64_MAX,
						 .bytes = 1};
	for (uint16_t i = 1; i < FIGURES_QUEUES; i++)
		queues[i] = (struct figures_queue_row){.host = 1 + i % 500u,
						       .cntlid = i,
						       .entries = 2,
						       .commands = UINT64_MAX,
						       .latency_ns = UINT64_MAX,
						       .bucket = {1, 2, 3, 4, 5, 6, 7, 8}};
	for (uint16_t i = 1; i < FIGURES_QUEUE_ERRORS; i++)
		queue_errors[i] = (struct figures_queue_error_row){
			.queue = 1 + i % 200u, .status = i / 200u, .count = 1};
	text = page();
	assert_true(strlen(text) > 1u << 20);
	free(text);
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_counted_is_there),
		TEST(names_are_escaped),
		TEST(nothing_counted_is_a_page_too),
		TEST(the_fullest_page_is_of_the_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
