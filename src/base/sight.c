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

/* Most processes have one. */
struct memory {
	struct list node;
	struct sight_head *head; /* SIGHT_BYTES of it */
	int fd;
	dev_t device; /* of fd, which a program may have closed */
	ino_t inode;
	uint64_t used;
	uint32_t count; /* of entries */
};

static struct {
	pthread_mutex_t lock; /* nobody takes another one who has this */
	struct list tables;
	struct list memories; /* the latest last */
	unsigned int memory_count;
	bool refused; /* there is none to be had */
} sight = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.tables = {&sight.tables, &sight.tables},
	.memories = {&sight.memories, &sight.memories},
};

/* ---- the memory -------------------------------------------------------------------------------
 */

static void hang_up(const struct memory *m)
{
	struct stat st;

	if (m->fd >= 0 && fstat(m->fd, &st) == 0 && st.st_dev == m->device && st.st_ino == m->inode)
		close(m->fd);
}

static int open_memory(struct memory *m)
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
	m->device = st.st_dev;
	m->inode = st.st_ino;
	return fd;
}

/* One more; NULL: there is none to be had. */
static struct memory *begin(void)
{
	struct memory *m;
	void *p = MAP_FAILED;

	if (sight.refused || sight.memory_count == SIGHT_MEMORIES_MAX)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->fd = open_memory(m);
	if (m->fd >= 0)
		p = mmap(NULL, SIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (p == MAP_FAILED) {
		log_info("sight", "the counters cannot be seen from outside: %s",
			 strerror(m->fd < 0 ? -m->fd : errno));
		hang_up(m);
		free(m);
		sight.refused = true;
		return NULL;
	}
	m->head = p;
	m->used = sizeof(struct sight_head);
	m->head->since_ns = time_now_ns();
	__atomic_store_n(&m->head->magic, SIGHT_MAGIC, __ATOMIC_RELEASE);
	list_push_tail(&sight.memories, &m->node);
	sight.memory_count++;
	return m;
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
	list_for_each(m, &sight.memories, struct memory, node) {
		if (mmap(m->head, SIGHT_BYTES, PROT_READ | PROT_WRITE,
			 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			 0) == MAP_FAILED)
			abort(); /* rather than count for the parent */
		hang_up(m);
		list_remove(&m->node);
		free(m);
	}
	sight.memory_count = 0;
	sight.refused = false;
	list_for_each(t, &sight.tables, struct table, node)
		if (t->kind == SEEN)
			t->kind = INHERITED;
	pthread_mutex_unlock(&sight.lock);
}

/* Before all others of its file: whoever is registered first is asked last before a fork, and may
 * not take a lock after this one. */
__attribute__((constructor(101))) static void watch_forks(void)
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

static uint64_t place_in(const struct memory *m)
{
	return (m->used + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
}

static bool has_room(const struct memory *m, size_t bytes, unsigned int tables)
{
	return m->count + tables <= SIGHT_TABLES_MAX &&
	       place_in(m) + bytes + (size_t)(tables - 1) * ROW_ALIGN <= SIGHT_BYTES;
}

/* The latest that is seen, if there is room for so much; NULL: there is none. */
static struct memory *memory_for(size_t bytes, unsigned int tables)
{
	if (bytes + tables * ROW_ALIGN > SIGHT_BYTES - sizeof(struct sight_head))
		return NULL;
	if (!list_empty(&sight.memories)) {
		struct memory *m = list_entry(sight.memories.prev, struct memory, node);

		if (has_room(m, bytes, tables))
			return m;
	}
	return begin();
}

/* Room for it in memory that is seen. */
static bool place(struct table *t, const char *keys)
{
	const size_t bytes = t->count * t->columns * sizeof(*t->rows);
	struct memory *m = memory_for(bytes, 1);
	struct sight_entry *e;
	uint64_t at;

	if (!m)
		return false;
	at = place_in(m);
	e = &m->head->entries[m->count++];
	e->in_use = 1;
	e->columns = (uint32_t)t->columns;
	e->rows = (uint32_t)t->count;
	e->offset = at;
	memcpy(e->room, t->room, strlen(t->room) + 1);
	memcpy(e->keys, keys, strlen(keys) + 1);
	m->used = at + bytes;
	t->kind = SEEN;
	t->entry = e;
	t->rows = (uint64_t *)((uint8_t *)m->head + at);
	__atomic_store_n(&m->head->count, m->count, __ATOMIC_RELEASE);
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

void sight_together(size_t bytes, unsigned int tables)
{
	pthread_mutex_lock(&sight.lock);
	(void)memory_for(bytes, tables);
	pthread_mutex_unlock(&sight.lock);
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
