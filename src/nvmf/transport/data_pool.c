/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/transport/data_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NONE UINT32_MAX

enum { INSIDE, FREE, USED }; /* of a page: no block begins here, or one does */

static void push(struct data_pool *p, uint32_t page, uint8_t order)
{
	uint32_t head = p->free_head[order];

	p->state[page] = FREE;
	p->order[page] = order;
	p->prev[page] = NONE;
	p->next[page] = head;
	if (head != NONE)
		p->prev[head] = page;
	p->free_head[order] = page;
}

static void unlink_free(struct data_pool *p, uint32_t page)
{
	uint32_t next = p->next[page], prev = p->prev[page];

	if (prev == NONE)
		p->free_head[p->order[page]] = next;
	else
		p->next[prev] = next;
	if (next != NONE)
		p->prev[next] = prev;
	p->state[page] = INSIDE;
}

int data_pool_init(struct data_pool *p, size_t len)
{
	size_t pages;

	*p = (struct data_pool){0};
	len = (len + DATA_POOL_BLOCK_MAX - 1) / DATA_POOL_BLOCK_MAX * DATA_POOL_BLOCK_MAX;
	pages = len / DATA_POOL_PAGE;
	p->base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->base == MAP_FAILED)
		return -ENOMEM;
	p->len = len;
	p->next = calloc(pages, sizeof(*p->next));
	p->prev = calloc(pages, sizeof(*p->prev));
	p->order = calloc(pages, 1);
	p->state = calloc(pages, 1);
	if (!p->next || !p->prev || !p->order || !p->state) {
		data_pool_fini(p);
		return -ENOMEM;
	}
	for (int i = 0; i < DATA_POOL_ORDERS; i++)
		p->free_head[i] = NONE;
	for (size_t page = pages; page; page -= DATA_POOL_BLOCK_MAX / DATA_POOL_PAGE)
		push(p, (uint32_t)(page - DATA_POOL_BLOCK_MAX / DATA_POOL_PAGE),
		     DATA_POOL_ORDERS - 1);
	return 0;
}

void data_pool_fini(struct data_pool *p)
{
	free(p->next);
	free(p->prev);
	free(p->order);
	free(p->state);
	if (p->len)
		munmap(p->base, p->len);
	*p = (struct data_pool){0};
}

static uint8_t order_of(size_t len)
{
	uint8_t order = 0;

	while (order < DATA_POOL_ORDERS && ((size_t)DATA_POOL_PAGE << order) < len)
		order++;
	return order;
}

size_t data_pool_block(size_t len)
{
	return len ? (size_t)DATA_POOL_PAGE << order_of(len) : 0;
}

void *data_pool_get(struct data_pool *p, size_t len)
{
	uint8_t want = order_of(len), order;
	uint32_t page;

	for (order = want; order < DATA_POOL_ORDERS && p->free_head[order] == NONE; order++)
		;
	if (order >= DATA_POOL_ORDERS)
		return NULL;
	page = p->free_head[order];
	unlink_free(p, page);
	while (order > want) { /* the upper half goes back */
		order--;
		push(p, page + (1u << order), order);
	}
	p->state[page] = USED;
	p->order[page] = want;
	p->used += (size_t)DATA_POOL_PAGE << want;
	return p->base + (size_t)page * DATA_POOL_PAGE;
}

void data_pool_put(struct data_pool *p, void *block)
{
	uint32_t page = (uint32_t)(((uint8_t *)block - p->base) / DATA_POOL_PAGE);
	uint8_t order = p->order[page];

	assert(p->state[page] == USED);
	p->used -= (size_t)DATA_POOL_PAGE << order;
	p->state[page] = INSIDE;
	for (; order < DATA_POOL_ORDERS - 1; order++) {
		uint32_t buddy = page ^ 1u << order;

		if (p->state[buddy] != FREE || p->order[buddy] != order)
			break;
		unlink_free(p, buddy);
		page = min_of(page, buddy);
	}
	push(p, page, order);
}
