/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is known of a process from outside, as text that neither a terminal nor JSON stumbles over:
 * a program may call itself anything. */
#ifndef WEFT_CLI_PROCESS_H
#define WEFT_CLI_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

/* Both "?" where /proc does not tell. Returns buf. */
const char *process_name(char *buf, size_t room, pid_t pid);
/* With its arguments; the name where there are none. */
const char *process_command(char *buf, size_t room, pid_t pid);
/* The user's name, or number. */
const char *user_name(char *buf, size_t room, uid_t uid);

#endif
