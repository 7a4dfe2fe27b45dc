/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Intrusive doubly linked list. A node is in at most one list; an initialised node alone is empty.
 */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H

#include <stdbool.h>

#include "base/compiler.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline bool list_is_single(const struct list *l)
{
	return l->next != l && l->next->next == l;
}

static inline void list_insert_before(struct list *at, struct list *n)
{
	n->prev = at->prev;
	n->next = at;
	at->prev->next = n;
	at->prev = n;
}

static inline void list_push_tail(struct list *head, struct list *n)
{
	list_insert_before(head, n);
}

static inline void list_push_head(struct list *head, struct list *n)
{
	list_insert_before(head->next, n);
}

/* Leaves n initialised, so that removing twice is harmless. */
static inline void list_remove(struct list *n)
{
	n->next->prev = n->prev;
	n->prev->next = n->next;
	list_init(n);
}

static inline struct list *list_pop_head(struct list *head)
{
	struct list *n = head->next;

	if (n == head)
		return NULL;
	list_remove(n);
	return n;
}

#define list_entry(n, type, member) container_of(n, type, member)

/* Safe against removal of the current entry. */
#define list_for_each(it, head, type, member)                             \
	for (type *it = list_entry((head)->next, type, member),           \
		  *it##_next = list_entry(it->member.next, type, member); \
	     &it->member != (head);                                       \
	     it = it##_next, it##_next = list_entry(it->member.next, type, member))

#endif
