/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/sight.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define ROW_ALIGN 64

/*
 * What we know of a table ourselves, as others may write into the memory that is seen.
 *   SEEN       of that memory; once released, for the next one who wants the like
 *   UNSEEN     of memory of its own
 *   INHERITED  of our parent's memory before a fork
 */
enum table_kind { SEEN, UNSEEN, INHERITED };

struct table {
	struct list node;
	enum table_kind kind;
	uint64_t *rows;
	struct sight_entry *entry;
	const char *room;
	size_t columns, count;
	bool in_use;
};

static struct {
	pthread_mutex_t lock; /* nobody takes another one who has this */
	struct list tables;
	struct sight_head *head; /* SIGHT_BYTES of it; NULL: none yet */
	int fd;
	dev_t device; /* of fd, which a program may have closed */
	ino_t inode;
	bool refused; /* there is none to be had */
	uint64_t used;
	uint32_t count; /* of entries */
} sight = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.tables = {&sight.tables, &sight.tables},
	.fd = -1,
};

/* ---- the memory -------------------------------------------------------------------------------
 */

static void hang_up(void)
{
	struct stat st;

	if (sight.fd >= 0 && fstat(sight.fd, &st) == 0 && st.st_dev == sight.device &&
	    st.st_ino == sight.inode)
		close(sight.fd);
	sight.fd = -1;
}

static int open_memory(void)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	struct rlimit limit;
	struct stat st;
	int fd;

	/* To ask for more than that is a signal. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < SIGHT_BYTES)
		return -EFBIG;
	fd = memfd_create(SIGHT_NAME, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(SIGHT_NAME, flags);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, SIGHT_BYTES) < 0 || fstat(fd, &st) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	sight.device = st.st_dev;
	sight.inode = st.st_ino;
	return fd;
}

static bool begin(void)
{
	void *p = MAP_FAILED;

	if (sight.head || sight.refused)
		return sight.head;
	sight.fd = open_memory();
	if (sight.fd >= 0)
		p = mmap(NULL, SIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sight.fd, 0);
	if (p == MAP_FAILED) {
		log_info("sight", "the counters cannot be seen from outside: %s",
			 strerror(sight.fd < 0 ? -sight.fd : errno));
		hang_up();
		sight.refused = true;
		return false;
	}
	sight.head = p;
	sight.used = sizeof(struct sight_head);
	sight.count = 0;
	sight.head->since_ns = time_now_ns();
	__atomic_store_n(&sight.head->magic, SIGHT_MAGIC, __ATOMIC_RELEASE);
	return true;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&sight.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&sight.lock);
}

/* What the child still counts in its parent's tables it counts for itself. */
static void fork_child(void)
{
	if (sight.head &&
	    mmap(sight.head, SIGHT_BYTES, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		abort(); /* rather than count for the parent */
	hang_up();
	sight.head = NULL;
	sight.refused = false;
	list_for_each(t, &sight.tables, struct table, node)
		if (t->kind == SEEN)
			t->kind = INHERITED;
	pthread_mutex_unlock(&sight.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool take_again(struct table *t)
{
	memset(t->rows, 0, t->count * t->columns * sizeof(*t->rows));
	t->in_use = true;
	__atomic_store_n(&t->entry->in_use, 1, __ATOMIC_RELEASE);
	return true;
}

/* Room for it in the memory that is seen. */
static bool place(struct table *t, const char *keys)
{
	const size_t bytes = t->count * t->columns * sizeof(*t->rows);
	struct sight_entry *e;
	uint64_t at;

	if (!begin() || sight.count == SIGHT_TABLES_MAX)
		return false;
	at = (sight.used + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
	if (at + bytes > SIGHT_BYTES)
		return false;
	e = &sight.head->entries[sight.count++];
	e->in_use = 1;
	e->columns = (uint32_t)t->columns;
	e->rows = (uint32_t)t->count;
	e->offset = at;
	memcpy(e->room, t->room, strlen(t->room) + 1);
	memcpy(e->keys, keys, strlen(keys) + 1);
	sight.used = at + bytes;
	t->kind = SEEN;
	t->entry = e;
	t->rows = (uint64_t *)((uint8_t *)sight.head + at);
	__atomic_store_n(&sight.head->count, sight.count, __ATOMIC_RELEASE);
	return true;
}

static uint64_t *take(const char *room, const char *keys, size_t columns, size_t rows)
{
	struct table *t;

	list_for_each(old, &sight.tables, struct table, node)
		if (old->kind == SEEN && !old->in_use && old->columns == columns &&
		    old->count == rows && strcmp(old->room, room) == 0 && take_again(old))
			return old->rows;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	*t = (struct table){.room = room, .columns = columns, .count = rows, .in_use = true};
	if (!place(t, keys)) {
		t->kind = UNSEEN;
		t->rows = calloc(rows, columns * sizeof(*t->rows));
		if (!t->rows) {
			free(t);
			return NULL;
		}
	}
	list_push_tail(&sight.tables, &t->node);
	return t->rows;
}

void *sight_take(const char *room, const char *keys, size_t columns, size_t rows)
{
	uint64_t *table;

	assert(strlen(room) < SIGHT_ROOM_MAX && strlen(keys) < SIGHT_KEYS_MAX);
	pthread_mutex_lock(&sight.lock);
	table = take(room, keys, columns, rows);
	pthread_mutex_unlock(&sight.lock);
	return table;
}

void sight_release(void *table)
{
	if (!table)
		return;
	pthread_mutex_lock(&sight.lock);
	list_for_each(t, &sight.tables, struct table, node) {
		if (t->rows != table)
			continue;
		t->in_use = false;
		if (t->kind == SEEN) {
			__atomic_store_n(&t->entry->in_use, 0, __ATOMIC_RELEASE);
			continue;
		}
		if (t->kind == UNSEEN)
			free(t->rows);
		list_remove(&t->node);
		free(t);
	}
	pthread_mutex_unlock(&sight.lock);
}
