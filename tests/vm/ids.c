/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "ids.h"

#include <stdio.h>
#include <stdlib.h>

#include "port/udp/ip_id.h"

enum { RECEIVERS = 32 };

/* A sender that restarts costs one packet; beyond that nothing should be lost. */
enum { FEW = 3, ONE_OF = 100000 };

static struct receiver {
	struct gid address;
	uint8_t slot; /* of the process, in the destination QPN */
	struct ip_id_table *table;
} receiver[RECEIVERS];

static unsigned long looked_at, refused;
static int first; /* frame of those */

static struct ip_id_table *table_of(const struct gid *address, uint8_t slot)
{
	for (size_t i = 0; i < RECEIVERS; i++) {
		struct receiver *r = &receiver[i];

		if (!r->table) {
			*r = (struct receiver){*address, slot, calloc(1, sizeof(*r->table))};
			if (!r->table)
				abort();
		}
		if (r->slot == slot && gid_equal(&r->address, address))
			return r->table;
	}
	return NULL; /* rxe's queue pair numbers have no slots, nor are there so many */
}

void ids_look(const struct roce_packet *p, const struct pkt_hdr *h)
{
	bool datagram = (h->bth.opcode & SERVICE_MASK) == SERVICE_UD;
	struct ip_id_found from;
	struct ip_id_table *t = table_of(&p->flow.dgid, (uint8_t)(h->bth.dqpn >> 16));

	if (!t || !gid_is_ipv4(&p->flow.dgid))
		return;
	looked_at++;
	if (ip_id_check(t, &p->flow, p->udp, p->udp_len, -1, p->ns, &from)) {
		if (!datagram)
			ip_id_accept(t, &from, p->ns);
		return;
	}
	if (!refused++)
		first = p->frame;
}

bool ids_print(void)
{
	if (refused)
		printf(", %lu good packets refused for their identification, the first in frame %d",
		       refused, first);
	for (size_t i = 0; i < RECEIVERS; i++)
		free(receiver[i].table);
	return refused > FEW + looked_at / ONE_OF;
}
