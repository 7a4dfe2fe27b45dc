/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Services that are running, and what one asks of them (control_request.h). */
#ifndef WEFT_CLI_CONTROL_CLIENT_H
#define WEFT_CLI_CONTROL_CLIENT_H

#include <stddef.h>

#include "base/compiler.h"
#include "cli/control_path.h"

struct json_object;

/* Of an answer, and no word of the service's: that another user has given it, whom root may ask,
 * and who may say what he likes. */
#define CONTROL_OTHERS "others"

/* {"weft":1,"op":op}, to which more may be added. */
struct json_object *control_ask(const char *op);
/*
 * Sends the request, which is taken over, and has the answer. -EINVAL: the service says no, and why
 * in *ret with "error"; another -errno, and why: there is no answer.
 */
int control_call(const char *path, struct json_object *request, struct json_object **ret, char *why,
		 size_t room) must_use;
/*
 * The socket of the service that is meant: a process's ID, a subsystem's NQN, the path of a socket,
 * or, if which is NULL, the only one. -errno after a line on standard error that says what there
 * is.
 */
int control_choose(const char *which, char ret[CONTROL_PATH_MAX]) must_use;

#endif
