/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The disks that weft serve has open: files, block devices and those it makes. A namespace has one;
 * while one namespace takes the place of another, both have the same. A disk that none has any more
 * is flushed, and then closed.
 */
#ifndef WEFT_CLI_DISKS_H
#define WEFT_CLI_DISKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "cli/disk_words.h"
#include "store/store.h"

struct disk {
	struct list link; /* of disks.all */
	struct store *store;
	char *path;    /* as it was named; without what stands behind a comma */
	char *text;    /* with it */
	bool made;     /* no file */
	bool forgets;  /* at each start it is another */
	uint8_t shift; /* of its blocks */
	uint32_t users;
	bool claimed; /* by a plan that is being made */
	bool lost;    /* a flush of it has failed */
	struct store_op flush;
	bool flushing, flushed; /* since the last user has gone; at the end */
	bool stale;		/* what is under way began before that */
	int error;		/* of that */
	struct disk_words words;
};

/* What a made disk is to become, prepared. All zeroes: nothing. */
struct disk_size {
	struct disk *disk;
	char *path, *text;
	uint64_t bytes, before;
};

struct disks {
	struct list all;
	struct store_engine *engine;
	struct store_engine *const *engines; /* of all threads that use them, if several do */
	unsigned engine_count;
	/* For all that do not say otherwise; a block size of 0: as Linux's target would have it. */
	struct store_file_options how;
};

void disks_init(struct disks *d, struct store_engine *engine, const struct store_file_options *how);
/* Those that are opened from here on are used by so many threads, of which the first has the engine
 * that was named at first. The array is the caller's. */
void disks_share(struct disks *d, struct store_engine *const *engines, unsigned count);
/* Opens or makes one, for one user. -errno, and why, which names it. */
int disk_open(struct disks *d, const char *text, struct disk **ret, char *why,
	      size_t room) must_use;
/* One that is open, for one user more: it may have become too small since. -errno, and why. */
int disk_again(struct disk *k, char *why, size_t room) must_use;
/*
 * Of a disk that is made: the size that text, by which it is called then, says. What can fail is
 * done, of which its namespace shows nothing, and can be undone. -errno, and why.
 */
int disk_size_prepare(struct disk *k, const char *text, struct disk_size *ret, char *why,
		      size_t room) must_use;
void disk_size_apply(struct disk_size *z);
void disk_size_undo(struct disk_size *z);
/*
 * Has threads look at those of these disks that are not open, and not made. True: that is under
 * way, by d->how.ahead, and meanwhile the disks are better not opened; false: nothing is to be
 * waited for, as what came of looking at the same disks before is there. All else of it goes.
 * The texts are put in order.
 */
bool disks_look(struct disks *d, const char **texts, unsigned count);
/* What came of it, and nobody took, goes. */
void disks_look_end(struct disks *d);
/* One user less; unused: nothing was written, it may be closed as it is. */
void disk_put(struct disk *k, bool unused);
/* Closes those that have no user and are flushed. */
void disks_process(struct disks *d);
/* Says what is to be said of errors by now; true: there is more, later. */
bool disks_settle(struct disks *d, uint64_t now_ns);

/* --- at the end ------------------------------------------------------------------------------
 */

/* All at once, so that one that hangs costs the others nothing. */
void disks_flush(struct disks *d);
bool disks_flushed(const struct disks *d);
/* Says what became of each; seconds: how long was waited. The exit status. */
int disks_last_words(const struct disks *d, unsigned int seconds);
/* All must be flushed. */
void disks_close(struct disks *d);

#endif
