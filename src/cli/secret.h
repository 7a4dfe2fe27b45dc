/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys of DH-HMAC-CHAP as the user hands them over: as nvme-cli takes them, on the command line, or
 * from a file. No message quotes one, and what was on the command line is overwritten there once
 * it is read: it would stand in /proc/PID/cmdline for everybody.
 */
#ifndef WEFT_CLI_SECRET_H
#define WEFT_CLI_SECRET_H

#include "nvmf/auth/key.h"

/* The first line of a file. -errno: why says so, with the file's name. */
int secret_read_file(const char *path, struct auth_key *ret, char *why, size_t room) must_use;
/* What an option has: DHHC-1:..., or @FILE. */
int secret_read(const char *text, struct auth_key *ret, char *why, size_t room) must_use;
/* Overwrites a word of the command line. */
void secret_mask(char *word);
/* Bytes of the kernel's randomness; for struct target_env and host_config. */
void secret_random(void *ctx, void *p, size_t len);

#endif
