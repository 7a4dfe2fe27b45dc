/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The store in memory: sparse memory for data, and its own for metadata. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"
#include "store/sparse.h"

#define CHUNK SPARSE_CHUNK
/* Who has a stretch has the chunks in it. */
static_assert(STRETCH % CHUNK == 0, "a chunk of two stretches");
/* In a moment so many chunks are emptied, and so many looked for. */
#define MOMENT_CHUNKS 64
#define MOMENT_LOOKS  (64u * 1024)

struct mem_store {
	struct store store;
	struct sparse data, meta;
	struct stretches *stretches; /* if several threads use it */
	_Atomic uint32_t users;	     /* who made it, and what is lent */
};

struct mem_loan {
	struct store_loan loan;
	struct mem_store *of;
	enum store_opcode opcode;
	uint64_t offset;
	struct iovec iov[STORE_LOAN_PIECES];
	struct sparse_chunk *chunks[STORE_LOAN_PIECES]; /* NULL: not of one */
};

static struct mem_store *mem_of(struct store *s)
{
	return container_of(s, struct mem_store, store);
}

/* --- operations ------------------------------------------------------------------------------- */

static uint64_t meta_bytes(const struct mem_store *m, uint64_t bytes)
{
	return bytes / m->store.block_size * m->store.meta_size;
}

/* A piece that was lent to be filled is a whole chunk: it goes where it belongs as it is. */
static bool take_filled(struct mem_store *m, const struct store_op *op, uint32_t i, uint64_t at)
{
	struct mem_loan *l = op->loan ? container_of(op->loan, struct mem_loan, loan) : NULL;

	if (!l || !l->chunks[i])
		return false;
	assert(l->of == m && l->offset == op->offset);
	sparse_swap(&m->data, at, l->chunks[i]);
	l->chunks[i] = NULL;
	return true;
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
		else if (!take_filled(m, op, i, at))
			error = sparse_write(&m->data, at, piece->iov_base, piece->iov_len);
		at += piece->iov_len;
	}
	if (op->opcode == STORE_READ && op->meta)
		sparse_read(&m->meta, meta_at, op->meta, meta_len);
	else if (op->opcode == STORE_WRITE && !error && op->meta)
		error = sparse_write(&m->meta, meta_at, op->meta, meta_len);
	else if (op->opcode == STORE_WRITE && !error)
		error = sparse_zero(&m->meta, meta_at, meta_len);
	return error;
}

static int mem_do(struct mem_store *m, const struct store_op *op)
{
	const uint64_t size = m->store.size;
	int error;

	if (op->offset > size || op->len > size - op->offset)
		return -ERANGE;
	if (store_op_moves_data(op))
		return mem_move(m, op);
	error = sparse_zero(&m->data, op->offset, op->len);
	if (!error)
		error = sparse_zero(&m->meta, meta_bytes(m, op->offset), meta_bytes(m, op->len));
	return error;
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

/* --- lending ---------------------------------------------------------------------------------- */

static const uint8_t zeroes[CHUNK];

static void mem_put(struct mem_store *m)
{
	if (atomic_fetch_sub(&m->users, 1) != 1)
		return;
	sparse_fini(&m->data);
	sparse_fini(&m->meta);
	stretches_destroy(m->stretches);
	free(m);
}

static void mem_end_loan(struct store_loan *loan)
{
	struct mem_loan *l = container_of(loan, struct mem_loan, loan);

	for (uint32_t i = 0; i < loan->count; i++)
		if (l->chunks[i])
			sparse_put(&l->of->data, l->chunks[i]);
	mem_put(l->of);
	free(l);
}

/* Chunk by chunk: what is there, or what could be in its place; in the caller's room what is of
 * none that is filled whole. */
static bool lend_piece(struct mem_loan *l, uint64_t offset, uint64_t len, uint8_t *room)
{
	struct sparse *m = &l->of->data;
	const uint32_t i = l->loan.count;
	struct sparse_chunk *c = NULL;

	if (l->opcode == STORE_READ) {
		c = sparse_lend(m, offset);
		room = c ? c->bytes + offset % CHUNK : (uint8_t *)(uintptr_t)zeroes;
	} else if (len == CHUNK) {
		c = sparse_spare(m);
		if (!c)
			return false;
		room = c->bytes;
	}
	l->chunks[i] = c;
	l->iov[i] = (struct iovec){room, len};
	l->loan.count++;
	return true;
}

static bool lend_pieces(struct mem_loan *l, uint64_t len, uint8_t *room)
{
	for (uint64_t at = 0, n; at < len; at += n) {
		n = min_of(len - at, CHUNK - (l->offset + at) % CHUNK);
		if (!lend_piece(l, l->offset + at, n, room + at))
			return false;
	}
	return true;
}

static struct store_loan *mem_lend(struct store *s, const struct store_op *op, void *room)
{
	struct mem_store *m = mem_of(s);
	uint64_t locked = 0;
	struct mem_loan *l;
	bool fine;

	if (op->len > (STORE_LOAN_PIECES - 1) * (uint64_t)CHUNK)
		return NULL;
	l = malloc(sizeof(*l));
	if (!l)
		return NULL;
	l->loan = (struct store_loan){.end = mem_end_loan, .iov = l->iov};
	l->of = m;
	l->opcode = op->opcode;
	l->offset = op->offset;
	atomic_fetch_add(&m->users, 1);
	if (m->stretches && op->opcode == STORE_READ)
		locked = stretches_lock(m->stretches, op);
	fine = op->offset <= s->size && op->len <= s->size - op->offset &&
	       lend_pieces(l, op->len, room);
	if (locked)
		stretches_unlock(m->stretches, locked);
	if (fine)
		return &l->loan;
	mem_end_loan(&l->loan);
	return NULL;
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
		there += m->data.slots[i++].chunk != NULL;
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

static int mem_resize(struct store *s, uint64_t size)
{
	static const struct store_op everywhere = {.len = (uint64_t)STRETCH * STRETCHES};
	struct mem_store *m = mem_of(s);
	struct sparse *const parts[] = {&m->data, &m->meta};
	const uint64_t sizes[] = {size, meta_bytes(m, size)};
	const uint64_t before[] = {s->size, meta_bytes(m, s->size)};
	void *tables[] = {NULL, NULL};
	uint64_t locked = 0;
	int error = 0;

	for (int i = 0; i < 2; i++) {
		const uint64_t count = sparse_chunks_for(parts[i], sizes[i]);

		if (count == parts[i]->count)
			continue;
		/* calloc() leaves what is never written untouched; realloc() would not. */
		tables[i] = calloc(count, sizeof(*m->data.slots));
		if (!tables[i]) {
			free(tables[0]);
			return -ENOMEM;
		}
	}
	if (m->stretches)
		locked = stretches_lock(m->stretches, &everywhere);
	for (int i = 0; i < 2 && !error; i++)
		if (sizes[i] > before[i])
			error = sparse_clear_tail(parts[i], before[i]);
	for (int i = 0; i < 2 && !error; i++) {
		if (tables[i])
			tables[i] = sparse_move(parts[i], tables[i],
						sparse_chunks_for(parts[i], sizes[i]));
		sparse_cut(parts[i], sizes[i]);
	}
	if (!error)
		s->size = size;
	if (m->stretches)
		stretches_unlock(m->stretches, locked);
	free(tables[0]);
	free(tables[1]);
	return error ? -ENOMEM : 0;
}

/* What is lent keeps it. */
static void mem_destroy(struct store *s)
{
	mem_put(mem_of(s));
}

static const struct store_ops mem_ops = {
	.name = "memory",
	.submit = mem_submit,
	.lend = mem_lend,
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
	atomic_init(&m->users, 1);
	if (sparse_init(&m->data, size) != 0) {
		free(m);
		return -ENOMEM;
	}
	if (sparse_init(&m->meta, meta_bytes(m, size)) != 0) {
		sparse_fini(&m->data);
		free(m);
		return -ENOMEM;
	}
	*ret = &m->store;
	return 0;
}
