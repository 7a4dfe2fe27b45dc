/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "endless.h"

#include <stdio.h>
#include <string.h>

#include "address.h"
#include "wire/cm_mad.h"
#include "wire/opcode.h"

/* Well over the seven: a NAK on the way, or a timer of the sender's own, may have it begin anew. */
enum { PAIRS = 16, ENOUGH = 16 };

/* What a sender does once its receiver has said DREQ, until the receiver says anything else. */
static struct pair {
	struct gid from, to;
	bool over;
	uint32_t dqpn, psn; /* of the first request since then */
	unsigned int count; /* how often it came */
	unsigned int worst;
} pair[PAIRS];
static unsigned int pairs;

static struct pair *between(const struct gid *from, const struct gid *to)
{
	for (unsigned int i = 0; i < pairs; i++)
		if (memcmp(&pair[i].from, from, sizeof(*from)) == 0 &&
		    memcmp(&pair[i].to, to, sizeof(*to)) == 0)
			return &pair[i];
	if (pairs == PAIRS)
		return NULL;
	pair[pairs] = (struct pair){.from = *from, .to = *to};
	return &pair[pairs++];
}

static void request(struct pair *p, const struct bth *bth)
{
	if (!p->count) {
		p->dqpn = bth->dqpn;
		p->psn = bth->psn;
	}
	if (p->dqpn != bth->dqpn || p->psn != bth->psn)
		return;
	p->count++;
	if (p->count > p->worst)
		p->worst = p->count;
}

void endless_look(const struct roce_packet *p, const struct pkt_hdr *h, uint16_t attr_id)
{
	bool rc = (h->bth.opcode & SERVICE_MASK) == SERVICE_RC;
	struct pair *sent = between(&p->flow.sgid, &p->flow.dgid);
	struct pair *back = between(&p->flow.dgid, &p->flow.sgid);

	if (back && (rc || attr_id)) {
		back->over = attr_id == CM_ATTR_DREQ || (back->over && !attr_id);
		if (attr_id != CM_ATTR_DREQ)
			back->count = 0;
	}
	if (sent && sent->over && rc &&
	    (opcode_table[h->bth.opcode].flags & (OPF_SEND | OPF_WRITE)))
		request(sent, &h->bth);
}

void endless_print(void)
{
	for (unsigned int i = 0; i < pairs; i++) {
		char text[ADDRESS_TEXT];

		if (pair[i].worst > ENOUGH)
			printf(", a PSN sent %u times after the peer's DREQ by %s", pair[i].worst,
			       address_text(text, &pair[i].from));
	}
}
