/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft top: each counter is in its column, of a process and of a queue pair. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/units.h"
#include "cli/snapshot.h"
#include "cli/top_served.h"
#include "engine/sight.h"

#define QPN	 0x123456u
#define LOOKS	 2
#define TEXT_MAX 65536

int cmd_top(int argc, char **argv);

/* ---- what is looked at: this process, which counts while top sleeps ---------------------------
 */

static struct shard_sight sight;

int __real_snapshot_take(struct snapshot *ret, pid_t pid);
int __wrap_snapshot_take(struct snapshot *ret, pid_t pid);
int __wrap_nanosleep(const struct timespec *, struct timespec *);

/* All looks are a second apart, whatever else this machine has to do. */
int __wrap_snapshot_take(struct snapshot *ret, pid_t pid)
{
	static uint64_t looks;
	int rc = __real_snapshot_take(ret, pid);

	ret->at_ns = ++looks * NSEC_PER_SEC;
	return rc;
}

#define COUNT(to, times)                               \
	do {                                           \
		(to)->tx_packets += 1000 * (times);    \
		(to)->rx_packets += 501 * (times);     \
		(to)->tx_retransmit += 11 * (times);   \
		(to)->rx_nak_sequence += 12 * (times); \
		(to)->rx_rnr_nak += 13 * (times);      \
		(to)->rx_drop_flow += 14 * (times);    \
		(to)->window_stalls += 15 * (times);   \
		(to)->tx_spurious += 16 * (times);     \
		(to)->rx_duplicate += 17 * (times);    \
		(to)->tx_sack += 100 * (times);        \
		(to)->rx_sack += 18 * (times);         \
		(to)->rx_ecn_marked += 19 * (times);   \
		(to)->rx_cnp += 20 * (times);          \
		(to)->tx_cnp += 21 * (times);          \
	} while (0)

static const struct {
	const char *title;
	uint64_t each; /* of what a queue pair counts; of the process it is twice that */
} columns[] = {
	{"PKT/s", 1501}, {"RETR/s", 11},  {"NAK/s", 12},  {"RNR/s", 13},
	{"DROP/s", 14},	 {"STALL/s", 15}, {"VAIN/s", 16}, {"DUP/s", 17},
	{"SACK/s", 118}, {"MARK/s", 19},  {"CNPI/s", 20}, {"CNPO/s", 21},
};

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	assert_int_equal(t->tv_sec, 1);
	COUNT(sight.core, 2);
	COUNT(sight.qps, 1);
	return 0;
}

static void show_one(void)
{
	struct rnic_config config = {0};

	assert_int_equal(shard_sight_take(&sight, &config), 0);
	COUNT(sight.core, 7); /* before anybody looks */
	COUNT(sight.qps, 3);
	sight.qps->qpn = QPN;
	sight.qps->type = RNIC_QPT_RC;
	sight.qps->state = RNIC_QPS_RTS;
	sight.qps->peer_gid_low = 0xffff0a000002;
	sight.qps->window = 3 << 10;
	sight.qps->inflight = 2 << 10;
	sight.qps->srtt_ns = 5 * NSEC_PER_MSEC;
	sight.qps->rate = 8192; /* kb/s: 1000 KiB/s */
}

/* ---- what is shown ----------------------------------------------------------------------------
 */

static char text[TEXT_MAX];

/* Into text what it writes. */
static void run_top(void)
{
	char name[] = "top", count[16], pid[16], *argv[] = {name, count, pid, NULL};
	FILE *to = tmpfile();
	int out = dup(STDOUT_FILENO), rc;
	size_t n;

	assert_non_null(to);
	snprintf(count, sizeof(count), "-n%d", LOOKS);
	snprintf(pid, sizeof(pid), "%d", getpid());
	fflush(stdout);
	assert_int_equal(dup2(fileno(to), STDOUT_FILENO), STDOUT_FILENO);
	rc = cmd_top(3, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	assert_int_equal(rc, 0);
	rewind(to);
	n = fread(text, 1, sizeof(text) - 1, to);
	text[n] = '\0';
	fclose(to);
}

/* The n-th line that has this in it. */
static const char *line_with(const char *what, int n)
{
	const char *line = text;

	while (line) {
		const char *end = strchr(line, '\n');
		const char *at = strstr(line, what);

		if (at && (!end || at < end) && n-- == 0)
			return line;
		line = end ? end + 1 : NULL;
	}
	fail_msg("not %d times '%s' in:\n%s", n + 1, what, text);
	return NULL;
}

/* Flush right below a title. */
static void expect_below(const char *line, const char *titles, const char *title, const char *want)
{
	const char *at = strstr(titles, title), *end;
	size_t n = strlen(want);

	assert_non_null(at);
	end = line + (at - titles) + strlen(title);
	if (memcmp(end - n, want, n) != 0 || end[-(ptrdiff_t)n - 1] != ' ' ||
	    (*end != ' ' && *end != '\n' && *end != '\0'))
		fail_msg("%s: not %s in:\n%s\n%s", title, want, titles, line);
}

static void expect_count(const char *line, const char *titles, const char *title, uint64_t want)
{
	char figure[32];

	snprintf(figure, sizeof(figure), "%llu", (unsigned long long)want);
	expect_below(line, titles, title, figure);
}

static void each_counter_has_its_column(void **state)
{
	const char *titles;
	char pid[32];

	(void)state;
	show_one();
	run_top();
	titles = line_with("NAME/QUEUE PAIR", 0);
	snprintf(pid, sizeof(pid), "%d test_top", getpid());
	for (int look = 0; look < LOOKS; look++) {
		const char *process = line_with(pid, look),
			   *qp = line_with("123456 RC 10.0.0.2", look);

		for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
			expect_count(process, titles, columns[i].title, 2 * columns[i].each);
			expect_count(qp, titles, columns[i].title, columns[i].each);
		}
		expect_below(qp, titles, "WINDOW", "3 KiB");
		expect_below(qp, titles, "FLIGHT", "2 KiB");
		expect_below(qp, titles, "RTT", "5.00 ms");
		expect_below(qp, titles, "RATE/s", "1000 KiB");
		assert_non_null(strstr(qp, "  rx_drop_flow 14\n"));
	}
	shard_sight_release(&sight);
}

static void so_has_what_is_done_with_a_namespace(void **state)
{
	const struct top_served t = {.pid = 1234567,
				     .subsystem =
					     "nqn.2026-11.org.example:a.subsystem.of.some.length",
				     .host = "nqn.2026-11.org.example:a.host.of.some.length",
				     .nsid = 7,
				     .commands = 42,
				     .errors = 6,
				     .read_bytes = 8 << 10,
				     .written_bytes = 4 << 10,
				     .latency_ns = 40 * NSEC_PER_MSEC,
				     .timed = 40};
	static const char *const figures[][2] = {{"PID", "1234567"},	 {"IOPS", "21"},
						 {"READ/s", "4 KiB"},	 {"WRITE/s", "2 KiB"},
						 {"LATENCY", "1.00 ms"}, {"ERR/s", "3"}};
	char line[256] = " ";

	(void)state;
	top_served_text(line + 1, sizeof(line) - 1, &t, 2);
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		expect_below(line, " " TOP_SERVED_TITLES, figures[i][0], figures[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_counter_has_its_column),
		cmocka_unit_test(so_has_what_is_done_with_a_namespace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
