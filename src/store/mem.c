/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The store in memory: chunks that are allocated when first written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

#define CHUNK (64u * 1024)

struct mem_store {
	struct store store;
	uint8_t **chunks;
};

static struct mem_store *mem_of(struct store *s)
{
	return container_of(s, struct mem_store, store);
}

/* Calls for each stretch of a chunk that an operation touches. */
static int mem_read(struct mem_store *m, uint64_t offset, uint8_t *buf, uint64_t len)
{
	while (len) {
		const uint8_t *chunk = m->chunks[offset / CHUNK];
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (chunk)
			memcpy(buf, chunk + at, n);
		else
			memset(buf, 0, n);
		offset += n;
		buf += n;
		len -= n;
	}
	return 0;
}

static int mem_write(struct mem_store *m, uint64_t offset, const uint8_t *buf, uint64_t len)
{
	while (len) {
		uint8_t **chunk = &m->chunks[offset / CHUNK];
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (!*chunk)
			*chunk = calloc(1, CHUNK);
		if (!*chunk)
			return -ENOSPC;
		memcpy(*chunk + at, buf, n);
		offset += n;
		buf += n;
		len -= n;
	}
	return 0;
}

static int mem_zero(struct mem_store *m, uint64_t offset, uint64_t len)
{
	while (len) {
		uint8_t **chunk = &m->chunks[offset / CHUNK];
		uint64_t at = offset % CHUNK, n = min_of(len, CHUNK - at);

		if (*chunk && n == CHUNK) {
			free(*chunk);
			*chunk = NULL;
		} else if (*chunk) {
			memset(*chunk + at, 0, n);
		}
		offset += n;
		len -= n;
	}
	return 0;
}

static void mem_submit(struct store *s, struct store_op *op)
{
	struct mem_store *m = mem_of(s);
	int error = 0;

	if (op->opcode != STORE_FLUSH && (op->offset > s->size || op->len > s->size - op->offset))
		error = -EINVAL;
	else if (op->opcode == STORE_READ)
		error = mem_read(m, op->offset, op->buf, op->len);
	else if (op->opcode == STORE_WRITE)
		error = mem_write(m, op->offset, op->buf, op->len);
	else if (op->opcode == STORE_ZERO || op->opcode == STORE_DISCARD)
		error = mem_zero(m, op->offset, op->len);
	op->done(op, error);
}

static void mem_destroy(struct store *s)
{
	struct mem_store *m = mem_of(s);

	for (uint64_t i = 0; i < (s->size + CHUNK - 1) / CHUNK; i++)
		free(m->chunks[i]);
	free(m->chunks);
	free(m);
}

static const struct store_ops mem_ops = {
	.name = "memory",
	.submit = mem_submit,
	.destroy = mem_destroy,
};

int store_mem_create(uint64_t size, uint32_t block_size, struct store **ret)
{
	struct mem_store *m;

	if (size == 0 || size % block_size)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->chunks = calloc((size + CHUNK - 1) / CHUNK, sizeof(*m->chunks));
	if (!m->chunks) {
		free(m);
		return -ENOMEM;
	}
	m->store = (struct store){
		.ops = &mem_ops,
		.size = size,
		.block_size = block_size,
		.discard_zeroes = true,
	};
	*ret = &m->store;
	return 0;
}
