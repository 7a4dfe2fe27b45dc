/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What weft serve is to whoever runs it: its lines in a journal, what they say of disks. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/disk_words.h"
#include "cli/output.h"
#include "cli/serve_say.h"

/* What say() writes to standard error, in a process of its own: where that leads is looked at once.
 * journal: whether that is the journal's. */
static const char *said(void (*say)(void), bool journal)
{
	static char text[8192];
	char stream[64];
	struct stat st;
	int ends[2], status;
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(fstat(ends[1], &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + !journal);
	setenv("JOURNAL_STREAM", stream, true);
	fflush(NULL);
	if (fork() == 0) {
		dup2(ends[1], STDERR_FILENO);
		say();
		_exit(0);
	}
	assert_true(wait(&status) > 0 && status == 0);
	n = recv(ends[0], text, sizeof(text) - 1, MSG_DONTWAIT);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	close(ends[1]);
	unsetenv("JOURNAL_STREAM");
	return text;
}

/* --- the journal --------------------------------------------------------------------------------
 */

static void say_all(void)
{
	struct serve_say say;

	serve_say_init(&say, false);
	log_warn("store", "a disk");
	(void)cli_fail("an end");
	cli_warn("a key");
	serve_say(&say, LOG_LEVEL_WARN, 0, "refused: a host");
	serve_say(&say, LOG_LEVEL_INFO, 0, "connected: a\nhost");
	serve_answer(&say, "read again");
}

static void a_journal_is_told_how_urgent_each_line_is(void **state)
{
	(void)state;
	assert_string_equal(said(say_all, true), "<4>weft store: a disk\n"
						 "<3>weft: an end\n"
						 "<4>weft: a key\n"
						 "<4>refused: a host\n"
						 "<6>connected: a\\x0ahost\n"
						 "<6>read again\n");
}

static void what_is_no_journal_gets_lines_as_they_are(void **state)
{
	(void)state;
	assert_string_equal(said(say_all, false), "weft store: a disk\n"
						  "weft: an end\n"
						  "weft: a key\n");
	setenv("JOURNAL_STREAM", "8:", true);
	assert_false(log_is_journal(STDERR_FILENO));
	unsetenv("JOURNAL_STREAM");
	assert_false(log_is_journal(STDERR_FILENO));
}

static void say_of_a_host(void)
{
	log_warn("store", "a write for nqn.\302\23331m\377\033c\nnext");
	(void)cli_fail("nqn.\302\235\300\233 caf\303\251");
	cli_warn("nqn.\n\342\200\256");
}

/* A terminal is not steered by it, and a line is one. */
static void what_hosts_call_themselves_is_tamed(void **state)
{
	(void)state;
	assert_string_equal(said(say_of_a_host, false),
			    "weft store: a write for nqn.??31m??c?next\n"
			    "weft: nqn.???? caf\303\251\n"
			    "weft: nqn.????\n");
}

/* --- disks --------------------------------------------------------------------------------------
 */

static struct disk_words words;

static void tell(enum target_event_type type, int error, uint64_t second)
{
	struct target_event e = {.type = type,
				 .peer = "192.0.2.1",
				 .nsid = 3,
				 .opcode = STORE_WRITE,
				 .error = error,
				 .waited_ns = second * NSEC_PER_SEC};

	disk_words_event(&words, "disk.img", &e, second * NSEC_PER_SEC);
}

static void fail_often(void)
{
	for (uint64_t second = 100; second < 160; second++)
		tell(TARGET_EVENT_STORE_FAILED, second == 159 ? -ENOSPC : -EIO, second);
	tell(TARGET_EVENT_STORE_FAILED, -ENOTCONN, 159);
	if (!disk_words_settle(&words, "disk.img", 159 * NSEC_PER_SEC))
		_exit(1);
	if (disk_words_settle(&words, "disk.img", 160 * NSEC_PER_SEC))
		_exit(1);
	tell(TARGET_EVENT_STORE_FAILED, -EIO, 161); /* a minute has not passed since */
	tell(TARGET_EVENT_STORE_FAILED, -EIO, 220);
	if (disk_words_settle(&words, "disk.img", UINT64_MAX))
		_exit(1);
}

static void errors_of_a_disk_are_told_first_and_then_counted(void **state)
{
	static const char first[] = "weft store: disk.img: a write fails: Input/output error "
				    "(namespace 3, for a host from 192.0.2.1)\n";
	char want[1024];

	(void)state;
	snprintf(want, sizeof(want), "%s%s%s%s", first,
		 "weft store: disk.img: 59 more errors, the last: a write: No space left on "
		 "device\n",
		 "weft store: disk.img: 1 more error, the last: a write: Input/output error\n",
		 first);
	assert_string_equal(said(fail_often, false), want);
}

static void stall(void)
{
	for (int i = 0; i < 3; i++)
		tell(TARGET_EVENT_STALLED, 0, 5);
	for (int i = 0; i < 3; i++)
		tell(TARGET_EVENT_STALL_OVER, 0, i == 1 ? 12 : 7);
	tell(TARGET_EVENT_STALLED, 0, 5);
	tell(TARGET_EVENT_STALL_OVER, 0, 6);
}

static void a_disk_that_keeps_commands_is_told_of_when_it_begins_and_ends(void **state)
{
	(void)state;
	assert_string_equal(
		said(stall, false),
		"weft store: disk.img: a write is not done after 5.00 s (namespace 3, "
		"for a host from 192.0.2.1)\n"
		"weft store: disk.img: goes on: 3 commands took that long, at most 12.0 s\n"
		"weft store: disk.img: a write is not done after 5.00 s (namespace 3, "
		"for a host from 192.0.2.1)\n"
		"weft store: disk.img: goes on: 1 command took that long, at most 6.00 s\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_journal_is_told_how_urgent_each_line_is),
		cmocka_unit_test(what_is_no_journal_gets_lines_as_they_are),
		cmocka_unit_test(what_hosts_call_themselves_is_tamed),
		cmocka_unit_test(errors_of_a_disk_are_told_first_and_then_counted),
		cmocka_unit_test(a_disk_that_keeps_commands_is_told_of_when_it_begins_and_ends),
	};

	unsetenv("WEFT_LOG");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
