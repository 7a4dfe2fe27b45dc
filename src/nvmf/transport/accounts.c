/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/transport/accounts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int accounts_init(struct accounts *a, size_t most)
{
	*a = (struct accounts){.all = calloc(most, sizeof(*a->all)), .len = most};
	return a->all ? 0 : -ENOMEM;
}

void accounts_fini(struct accounts *a)
{
	free(a->all);
	*a = (struct accounts){0};
}

static size_t bucket_of(const void *holder, uint64_t of)
{
	uint64_t x = ((uint64_t)(uintptr_t)holder + of * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return x >> 32 & (ACCOUNTS_BUCKETS - 1);
}

/* Where the account hangs, or would: NULL is there then. */
static struct account **find(struct accounts *a, const void *holder, uint64_t of)
{
	struct account **at = &a->bucket[bucket_of(holder, of)];

	while (*at && ((*at)->holder != holder || (*at)->of != of))
		at = &(*at)->next;
	return at;
}

size_t accounts_held(struct accounts *a, const void *holder, uint64_t of)
{
	const struct account *account = *find(a, holder, of);

	return account ? account->bytes : 0;
}

/* One that was in use is taken before a new one: room that was never needed stays untouched. */
static struct account *begin(struct accounts *a)
{
	struct account *account = a->free;

	if (account) {
		a->free = account->next;
		return account;
	}
	assert(a->begun < a->len);
	return &a->all[a->begun++];
}

void accounts_take(struct accounts *a, const void *holder, uint64_t of, size_t bytes)
{
	struct account **at = find(a, holder, of);

	if (!*at) {
		*at = begin(a);
		**at = (struct account){.holder = holder, .of = of};
	}
	(*at)->bytes += bytes;
}

void accounts_put(struct accounts *a, const void *holder, uint64_t of, size_t bytes)
{
	struct account **at = find(a, holder, of), *account = *at;

	assert(account && account->bytes >= bytes);
	account->bytes -= bytes;
	if (account->bytes)
		return;
	*at = account->next;
	account->next = a->free;
	a->free = account;
}
