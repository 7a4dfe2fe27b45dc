/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The store that keeps nothing: what takes time with it is everything else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

/* What is read is zeroes: the memory has held what other hosts read and wrote. */
static void null_submit(struct store *s, struct store_op *op)
{
	if (op->opcode != STORE_FLUSH && (op->offset > s->size || op->len > s->size - op->offset)) {
		op->done(op, -ERANGE);
		return;
	}
	for (uint32_t i = 0; op->opcode == STORE_READ && i < op->iov_count; i++)
		memset(op->iov[i].iov_base, 0, op->iov[i].iov_len);
	op->done(op, 0);
}

static int null_view(struct store *s, struct store_engine *e, struct store **ret)
{
	(void)e;
	*ret = s;
	return 0;
}

static int null_resize(struct store *s, uint64_t size)
{
	s->size = size;
	return 0;
}

static void null_destroy(struct store *s)
{
	free(s);
}

static const struct store_ops null_ops = {
	.name = "null",
	.submit = null_submit,
	.view = null_view,
	.resize = null_resize,
	.destroy = null_destroy,
};

int store_null_create(uint64_t size, uint32_t block_size, struct store **ret)
{
	struct store *s;

	if (size == 0 || size % block_size)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct store){
		.ops = &null_ops,
		.size = size,
		.block_size = block_size,
		.discard_zeroes = true,
	};
	*ret = s;
	return 0;
}
