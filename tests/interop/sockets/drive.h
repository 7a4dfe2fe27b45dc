/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef INTEROP_SOCKETS_DRIVE_H
#define INTEROP_SOCKETS_DRIVE_H

#include "case.h"

/* Runs what comes by standard input. words: as in main.c, from WEFT on. */
int drive(char **words);

extern const struct test_case connect_cases[], accept_cases[], data_cases[], calls_cases[],
	shutdown_cases[], poll_cases[], select_cases[], epoll_cases[], dup_cases[], fork_cases[],
	exec_cases[], threads_cases[], signals_cases[], handlers_cases[], stdio_cases[],
	options_cases[], errors_cases[], interrupted_cases[], moved_cases[], resets_cases[];

#endif
