/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the log says of a disk that fails commands, or keeps them: of an error at once, of those
 * that follow once a minute how many; of a disk that keeps commands when it begins to and when it
 * has given back all of them. A host that repeats what fails cannot fill the log with it.
 */
#ifndef WEFT_CLI_DISK_WORDS_H
#define WEFT_CLI_DISK_WORDS_H

#include "nvmf/target/target.h"

struct disk_words {
	uint64_t quiet_ns; /* until then errors are only counted */
	uint64_t errors;   /* such ones */
	int error;	   /* the last of them, and of what */
	enum store_opcode opcode;
	uint32_t kept; /* commands that it keeps, and has kept since it began to */
	uint32_t kept_in_all;
	uint64_t longest_ns;
};

/* One of TARGET_EVENT_STORE_FAILED, _STALLED and _STALL_OVER, of the disk at path. */
void disk_words_event(struct disk_words *w, const char *path, const struct target_event *e,
		      uint64_t now_ns);
/* Says what has been counted, once it is time, or at the end; true: there is something left that
 * will have to be said. */
bool disk_words_settle(struct disk_words *w, const char *path, uint64_t now_ns);

#endif
