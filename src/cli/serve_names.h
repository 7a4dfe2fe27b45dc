/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Names for what is served when nobody chose any: made from this machine's ID and the paths, so
 * that they are the same at every start and differ from everybody else's.
 */
#ifndef WEFT_CLI_SERVE_NAMES_H
#define WEFT_CLI_SERVE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/nvme.h"

/* A UUID (version 8: custom) of the machine's ID and text. */
void serve_uuid(const char *text, uint8_t ret[16]);
/* "nqn.2014-08.org.nvmexpress:uuid:…" of the first path. */
void serve_default_nqn(const char *path, char ret[NVME_NQN_LEN]);
/* Twenty hexadecimal digits of the subsystem's name. */
void serve_default_serial(const char *nqn, char ret[21]);
/* The path without symbolic links and dots, if it can be had; room bytes. */
void serve_real_path(const char *path, char *ret, size_t room);

#endif
