/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Logging of the edges (port, broker, faces, cli); the sans-I/O cores emit events instead.
 * Level from WEFT_LOG=err|warn|info|debug, default warn; lines go to standard error as
 * "weft MODULE: text". A line that would have to wait for who reads it is dropped.
 *
 * Where standard error is the journal's, which JOURNAL_STREAM says (sd-daemon(3)), "<N>" before it
 * tells how urgent the line is, as syslog(3) counts. Time is the journal's to tell.
 */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <stdbool.h>

#include "base/compiler.h"

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

bool log_enabled(enum log_level level);
/* Whether a descriptor is the stream by which the journal takes lines of this process. */
bool log_is_journal(int fd);
/* "<4>" where standard error is the journal's; else nothing. */
const char *log_prefix(enum log_level level);
void log_line(enum log_level level, const char *module, const char *fmt, ...) printf_like(3, 4);

#define log_at(level, module, ...)                            \
	do {                                                  \
		if (log_enabled(level))                       \
			log_line(level, module, __VA_ARGS__); \
	} while (0)

#define log_err(module, ...)   log_at(LOG_LEVEL_ERR, module, __VA_ARGS__)
#define log_warn(module, ...)  log_at(LOG_LEVEL_WARN, module, __VA_ARGS__)
#define log_info(module, ...)  log_at(LOG_LEVEL_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) log_at(LOG_LEVEL_DEBUG, module, __VA_ARGS__)

/*
 * For a call that is refused: at the level debug, its name and why. Returns the error, for errno,
 * and leaves errno alone.
 */
int log_refused(const char *module, const char *call, int error);

#endif
