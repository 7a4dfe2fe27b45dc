/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys of DH-HMAC-CHAP and of TLS as the user hands them over: as nvme-cli takes them, on the
 * command line, or from a file. No message quotes one, and what was on the command line is
 * overwritten there once it is read: it would stand in /proc/PID/cmdline for everybody.
 */
#ifndef WEFT_CLI_SECRET_H
#define WEFT_CLI_SECRET_H

#include <stdbool.h>

#include "nvmf/auth/key.h"

enum secret_kind { SECRET_DHCHAP, SECRET_TLS };

/* The first line of a file, of standard input, which is "-", or of a key of the kernel's,
 * "keyring:DESCRIPTION". -errno: why says so, with the file's name. */
int secret_read_file(enum secret_kind kind, const char *path, struct auth_key *ret, char *why,
		     size_t room) must_use;
/* What an option has: DHHC-1:... or NVMeTLSkey-1:..., or @FILE. */
int secret_read(enum secret_kind kind, const char *text, struct auth_key *ret, char *why,
		size_t room) must_use;
/* Of so many bytes, of what --secret has: hexadecimal digits, or @FILE. False: that was told, with
 * what chooses another length. */
bool secret_from_hex(const char *text, unsigned int len, const char *chooser,
		     uint8_t *ret) must_use;
/* A file with a key in it is for its owner: who else may read it is warned of. */
void secret_check_mode(const char *path, unsigned int mode);
/* Overwrites a word of the command line. */
void secret_mask(char *word);
/* Bytes of the kernel's randomness; for struct target_env and host_config. */
void secret_random(void *ctx, void *p, size_t len);

#endif
