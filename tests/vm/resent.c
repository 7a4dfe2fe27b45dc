/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "resent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "wire/opcode.h"

enum { SENDERS = 8 };

struct seen {
	struct gid from;
	uint32_t dqpn, psn;
	uint8_t opcode;
	size_t len; /* 0: a free place */
};

static struct seen *table; /* open addressing; room is a power of two, half of it free */
static size_t room, used;

static struct {
	struct gid from;
	unsigned int count; /* of PSNs sent again */
	unsigned int altered;
} sender[SENDERS];

static struct seen *place(struct seen *t, size_t n, const struct seen *s)
{
	uint32_t hash = (s->psn ^ s->dqpn << 8 ^ s->from.raw[15]) * 2654435761u;
	size_t i = hash & (n - 1);

	while (t[i].len && (t[i].psn != s->psn || t[i].dqpn != s->dqpn ||
			    memcmp(&t[i].from, &s->from, sizeof(s->from)) != 0))
		i = (i + 1) & (n - 1);
	return &t[i];
}

static void make_room(void)
{
	size_t more = room ? 2 * room : 4096;
	struct seen *t = calloc(more, sizeof(*t));

	if (!t)
		abort();
	for (size_t i = 0; i < room; i++)
		if (table[i].len)
			*place(t, more, &table[i]) = table[i];
	free(table);
	table = t;
	room = more;
}

static void count(const struct gid *from, bool altered)
{
	for (unsigned int i = 0; i < SENDERS; i++) {
		if (sender[i].count && memcmp(&sender[i].from, from, sizeof(*from)) != 0)
			continue;
		sender[i].from = *from;
		sender[i].count++;
		sender[i].altered += altered;
		return;
	}
}

void resent_look(const struct roce_packet *p, const struct pkt_hdr *h)
{
	struct seen now = {.from = p->flow.sgid,
			   .dqpn = h->bth.dqpn,
			   .psn = h->bth.psn,
			   .opcode = h->bth.opcode,
			   .len = p->udp_len};
	struct seen *old;

	if ((now.opcode & SERVICE_MASK) != SERVICE_RC ||
	    !(opcode_table[now.opcode].flags & (OPF_SEND | OPF_WRITE)))
		return;
	if (2 * used >= room)
		make_room();
	old = place(table, room, &now);
	if (!old->len) {
		*old = now;
		used++;
	} else {
		count(&now.from, old->opcode != now.opcode || old->len != now.len);
	}
}

void resent_print(void)
{
	for (unsigned int i = 0; i < SENDERS && sender[i].count; i++) {
		char text[ADDRESS_TEXT];

		address_text(text, &sender[i].from);
		printf(", %u PSNs sent again by %s", sender[i].count, text);
		if (sender[i].altered)
			printf(", %u PSNs sent again as something else by %s", sender[i].altered,
			       text);
	}
	free(table);
	table = NULL;
	room = used = 0;
}
