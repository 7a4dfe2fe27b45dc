// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The cases of the differential tester (sockets_diff.py): socket programs whose transcripts are to
 * be the same over TCP and over `weft run --sockets`.
 *
 *	sockets_cases list
 *	sockets_cases drive BOARD WEFT SILENT (PID ADDRESS ADDRESS6) x 2
 *	                                           reads lines: CASE MODE PORT LIMIT
 *	sockets_cases role (server | client)       one end of a case; started by the driver
 *	sockets_cases after (server | client) FD   what such an end becomes by exec()
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "board.h"
#include "case.h"
#include "drive.h"

static const struct test_case *const groups[] = {
	connect_cases, accept_cases,  data_cases,	 calls_cases,	 shutdown_cases,
	poll_cases,    select_cases,  epoll_cases,	 dup_cases,	 fork_cases,
	exec_cases,    threads_cases, signals_cases,	 handlers_cases, stdio_cases,
	options_cases, errors_cases,  interrupted_cases, moved_cases,	 resets_cases,
};

static const struct test_case *find(const char *name)
{
	for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct test_case *c = groups[g]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	return NULL;
}

static void list(void)
{
	for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct test_case *c = groups[g]; c->name; c++)
			printf("%s %u\n", c->name, c->limit_s);
}

static int usage(void)
{
	fputs("usage: sockets_cases list | drive ... (sockets_diff.py starts it)\n", stderr);
	return 2;
}

/* Without a word to whatever is preloaded. */
static bool map_board(const char *path)
{
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return false;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	return board != MAP_FAILED;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const struct test_case *c;

	if (!strcmp(verb, "list")) {
		list();
		return 0;
	}
	if (!strcmp(verb, "drive") && argc == 11 && map_board(argv[2])) {
		setenv("WEFT_CASE", argv[2], 1);
		return drive(argv + 3);
	}
	if (argc < 3 || !map_board(getenv("WEFT_CASE")))
		return usage();
	server = !strcmp(argv[2], "server");
	c = find(board->name);
	if (!c)
		return usage();
	if (!strcmp(verb, "role")) {
		c->run();
		return 0;
	}
	if (!strcmp(verb, "after") && argc == 4 && c->after) {
		c->after(atoi(argv[3]));
		return 0;
	}
	return usage();
}
