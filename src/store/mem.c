/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The store in memory: chunks that are mapped when first written. Metadata has its own. A chunk
 * that is zeroed or discarded gives its pages back to the system and stays mapped: a process may
 * have only so many mappings, and each gap between chunks would make one more.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/internal.h"

#define CHUNK (64u * 1024)
/* In a moment so many chunks are emptied, and so many looked for. */
#define MOMENT_CHUNKS 64
#define MOMENT_LOOKS  (64u * 1024)

struct sparse {
	_Atomic(uint8_t *) *chunks;
	uint64_t count;
};

struct mem_store {
	struct store store;
	struct sparse data, meta;
	struct stretches *stretches; /* if several threads use it */
};

static struct mem_store *mem_of(struct store *s)
{
	return container_of(s, struct mem_store, store);
}

/* Zeroes, or NULL. */
static uint8_t *chunk_create(void)
{
	void *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void chunk_empty(uint8_t *chunk)
{
	if (madvise(chunk, CHUNK, MADV_DONTNEED) != 0)
		memset(chunk, 0, CHUNK); /* locked, if its process wants that */
}

/* Calls for each stretch of a chunk that an operation touches. */
static void sparse_read(const struct sparse *m, uint64_t offset, uint8_t *buf, uint64_t len)
{
	while (len) {
		const uint8_t *chunk =
			atomic_load_explicit(&m->chunks[offset / CHUNK], memory_order_acquire);
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (chunk)
			memcpy(buf, chunk + at, n);
		else
			memset(buf, 0, n);
		offset += n;
		buf += n;
		len -= n;
	}
}

/* Metadata of several stretches share one, and so two may want to be the first there. */
static uint8_t *chunk_at(struct sparse *m, uint64_t offset)
{
	_Atomic(uint8_t *) *at = &m->chunks[offset / CHUNK];
	uint8_t *chunk = atomic_load_explicit(at, memory_order_acquire), *made;

	if (chunk)
		return chunk;
	made = chunk_create();
	if (!made || atomic_compare_exchange_strong(at, &chunk, made))
		return made;
	munmap(made, CHUNK);
	return chunk;
}

static int sparse_write(struct sparse *m, uint64_t offset, const uint8_t *buf, uint64_t len)
{
	while (len) {
		uint8_t *chunk = chunk_at(m, offset);
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (!chunk)
			return -ENOSPC;
		memcpy(chunk + at, buf, n);
		offset += n;
		buf += n;
		len -= n;
	}
	return 0;
}

static void sparse_zero(struct sparse *m, uint64_t offset, uint64_t len)
{
	while (len) {
		uint8_t *chunk =
			atomic_load_explicit(&m->chunks[offset / CHUNK], memory_order_acquire);
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (chunk && n == CHUNK)
			chunk_empty(chunk);
		else if (chunk)
			memset(chunk + at, 0, n);
		offset += n;
		len -= n;
	}
}

static int sparse_init(struct sparse *m, uint64_t size)
{
	m->count = (size + CHUNK - 1) / CHUNK;
	m->chunks = calloc(max_of(m->count, (uint64_t)1), sizeof(*m->chunks));
	return m->chunks ? 0 : -ENOMEM;
}

static void sparse_fini(struct sparse *m)
{
	for (uint64_t i = 0; m->chunks && i < m->count; i++)
		if (m->chunks[i])
			munmap(m->chunks[i], CHUNK);
	free(m->chunks);
}

/* --- operations ------------------------------------------------------------------------------- */

static uint64_t meta_bytes(const struct mem_store *m, uint64_t bytes)
{
	return bytes / m->store.block_size * m->store.meta_size;
}

static int mem_move(struct mem_store *m, const struct store_op *op)
{
	uint64_t meta_at = meta_bytes(m, op->offset), meta_len = meta_bytes(m, op->len);
	uint64_t at = op->offset;
	int error = 0;

	for (uint32_t i = 0; i < op->iov_count && !error; i++) {
		const struct iovec *piece = &op->iov[i];

		if (op->opcode == STORE_READ)
			sparse_read(&m->data, at, piece->iov_base, piece->iov_len);
		else
			error = sparse_write(&m->data, at, piece->iov_base, piece->iov_len);
		at += piece->iov_len;
	}
	if (op->opcode == STORE_READ && op->meta)
		sparse_read(&m->meta, meta_at, op->meta, meta_len);
	else if (op->opcode == STORE_WRITE && !error && op->meta)
		error = sparse_write(&m->meta, meta_at, op->meta, meta_len);
	else if (op->opcode == STORE_WRITE && !error)
		sparse_zero(&m->meta, meta_at, meta_len);
	return error;
}

static int mem_do(struct mem_store *m, const struct store_op *op)
{
	const uint64_t size = m->store.size;

	if (op->offset > size || op->len > size - op->offset)
		return -ERANGE;
	if (store_op_moves_data(op))
		return mem_move(m, op);
	sparse_zero(&m->data, op->offset, op->len);
	sparse_zero(&m->meta, meta_bytes(m, op->offset), meta_bytes(m, op->len));
	return 0;
}

static void mem_submit(struct store *s, struct store_op *op)
{
	struct mem_store *m = mem_of(s);
	uint64_t locked = 0;
	int error = 0;

	if (op->opcode != STORE_FLUSH) {
		if (m->stretches)
			locked = stretches_lock(m->stretches, op);
		error = mem_do(m, op);
		if (locked)
			stretches_unlock(m->stretches, locked);
	}
	op->done(op, error);
}

/* The stretch of the first byte keeps the table where it is. */
static uint64_t mem_moment(struct store *s, uint64_t offset, uint64_t len)
{
	const struct store_op first = {.offset = offset, .len = 1};
	struct mem_store *m = mem_of(s);
	uint64_t i = offset / CHUNK, end = (offset + len + CHUNK - 1) / CHUNK, locked = 0;
	unsigned there = 0;

	if (m->stretches)
		locked = stretches_lock(m->stretches, &first);
	end = min_of(end, m->data.count); /* it may be shorter by now */
	end = min_of(end, i + MOMENT_LOOKS);
	while (i < end && there < MOMENT_CHUNKS)
		there += m->data.chunks[i++] != NULL;
	if (locked)
		stretches_unlock(m->stretches, locked);
	return i * CHUNK > offset ? min_of(len, i * CHUNK - offset) : len;
}

static int mem_view(struct store *s, struct store_engine *e, struct store **ret)
{
	struct mem_store *m = mem_of(s);

	(void)e;
	if (!m->stretches)
		m->stretches = stretches_create();
	if (!m->stretches)
		return -ENOMEM;
	*ret = s;
	return 0;
}

/* How many chunks a table has that is to hold so many bytes: it does not get shorter, so that who
 * goes back to a former size does not fail. */
static uint64_t chunks_for(const struct sparse *m, uint64_t size)
{
	return max_of((size + CHUNK - 1) / CHUNK, m->count);
}

/* Has a longer table in the place of the present one, which is to be freed. */
static void *sparse_move(struct sparse *m, void *table, uint64_t count)
{
	void *before = m->chunks;

	for (uint64_t i = 0; i < m->count; i++)
		((_Atomic(uint8_t *) *)table)[i] = m->chunks[i];
	m->chunks = table;
	m->count = count;
	return before;
}

/* What is beyond the new end is gone. */
static void sparse_cut(struct sparse *m, uint64_t size, uint64_t before)
{
	if (size >= before)
		return;
	sparse_zero(m, size, min_of(before - size, (CHUNK - size % CHUNK) % CHUNK));
	for (uint64_t i = (size + CHUNK - 1) / CHUNK; i < m->count; i++) {
		if (m->chunks[i])
			munmap(m->chunks[i], CHUNK);
		m->chunks[i] = NULL;
	}
}

static int mem_resize(struct store *s, uint64_t size)
{
	static const struct store_op everywhere = {.len = (uint64_t)STRETCH * STRETCHES};
	struct mem_store *m = mem_of(s);
	struct sparse *const parts[] = {&m->data, &m->meta};
	const uint64_t sizes[] = {size, meta_bytes(m, size)};
	const uint64_t before[] = {s->size, meta_bytes(m, s->size)};
	void *tables[] = {NULL, NULL};
	uint64_t locked = 0;

	for (int i = 0; i < 2; i++) {
		const uint64_t count = chunks_for(parts[i], sizes[i]);

		if (count == parts[i]->count)
			continue;
		/* calloc() leaves what is never written untouched; realloc() would not. */
		tables[i] = calloc(count, sizeof(*m->data.chunks));
		if (!tables[i]) {
			free(tables[0]);
			return -ENOMEM;
		}
	}
	if (m->stretches)
		locked = stretches_lock(m->stretches, &everywhere);
	for (int i = 0; i < 2; i++) {
		if (tables[i])
			tables[i] =
				sparse_move(parts[i], tables[i], chunks_for(parts[i], sizes[i]));
		sparse_cut(parts[i], sizes[i], before[i]);
	}
	s->size = size;
	if (m->stretches)
		stretches_unlock(m->stretches, locked);
	free(tables[0]);
	free(tables[1]);
	return 0;
}

static void mem_destroy(struct store *s)
{
	struct mem_store *m = mem_of(s);

	sparse_fini(&m->data);
	sparse_fini(&m->meta);
	stretches_destroy(m->stretches);
	free(m);
}

static const struct store_ops mem_ops = {
	.name = "memory",
	.submit = mem_submit,
	.moment = mem_moment,
	.view = mem_view,
	.resize = mem_resize,
	.destroy = mem_destroy,
};

int store_mem_create(uint64_t size, uint32_t block_size, uint32_t meta_size, struct store **ret)
{
	struct mem_store *m;

	if (size == 0 || size % block_size)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->store = (struct store){
		.ops = &mem_ops,
		.size = size,
		.block_size = block_size,
		.meta_size = meta_size,
		.discard_zeroes = true,
	};
	if (sparse_init(&m->data, size) != 0 || sparse_init(&m->meta, meta_bytes(m, size)) != 0) {
		mem_destroy(&m->store);
		return -ENOMEM;
	}
	*ret = &m->store;
	return 0;
}
