/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks at every RoCEv2 packet of a pcap file: is the ICRC right, does the header decode, does what
 * was decoded encode to the same bytes? Then at what the connection managers said: was every REQ
 * accepted and confirmed, or rejected, and every DREQ answered? Prints one line, in which it names
 * senders that did not repeat what they repeated, or would not end it; status 1 if there is
 * anything wrong, or no packet at all.
 *
 * --cut-short: the last word of an exchange may be missing (packets are lost, or a side dies).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../golden/roce_pcap.h"
#include "endless.h"
#include "ids.h"
#include "resent.h"
#include "wire/bth.h"
#include "wire/cm_mad.h"
#include "wire/icrc.h"

/* A connection as the wire shows it: who asked under which id, and who answered under which. */
struct exchange {
	struct gid active, passive;
	uint32_t active_id, passive_id;
	bool rep, rtu, rej, dreq, drep;
};

struct exchanges {
	struct exchange *e;
	size_t count;
	unsigned int of_stale; /* rejected, reason 10 */
	unsigned int unread;   /* a CM's messages that are none */
	unsigned int astray;   /* messages of no exchange that began here */
	unsigned int late;     /* such that end one: it may have begun before the capture */
};

static void begin(struct exchanges *all, const struct roce_packet *p, uint32_t id)
{
	struct exchange *more;

	for (size_t i = all->count; i-- > 0;) {
		struct exchange *e = &all->e[i];

		if (e->active_id == id &&
		    memcmp(&e->active, &p->flow.sgid, sizeof(struct gid)) == 0)
			return; /* a REQ once more */
	}
	more = realloc(all->e, (all->count + 1) * sizeof(*more));
	if (!more)
		abort();
	all->e = more;
	all->e[all->count++] =
		(struct exchange){.active = p->flow.sgid, .passive = p->flow.dgid, .active_id = id};
}

/* The exchange in which a message of the sender's id from and the receiver's id to belongs. */
static struct exchange *find(struct exchanges *all, const struct roce_packet *p, uint32_t from,
			     uint32_t to)
{
	for (size_t i = all->count; i-- > 0;) {
		struct exchange *e = &all->e[i];

		if (memcmp(&e->active, &p->flow.dgid, sizeof(struct gid)) == 0 &&
		    e->active_id == to && (!e->rep || e->passive_id == from || from == 0))
			return e;
		if (memcmp(&e->active, &p->flow.sgid, sizeof(struct gid)) == 0 &&
		    e->active_id == from && (!e->rep || e->passive_id == to))
			return e;
	}
	return NULL;
}

/* Which of the CM's messages it is; 0 if none. */
static uint16_t look_at_mad(struct exchanges *all, const struct roce_packet *p, const uint8_t *mad)
{
	struct exchange *e = NULL;
	struct cm_msg m;

	if (cm_msg_decode(&m, mad) != 0) {
		all->unread++;
		return 0;
	}
	switch (m.hdr.attr_id) {
	case CM_ATTR_REQ:
		begin(all, p, m.req.local_comm_id);
		return m.hdr.attr_id;
	case CM_ATTR_REP:
		e = find(all, p, m.rep.local_comm_id, m.rep.remote_comm_id);
		if (e) {
			e->rep = true;
			e->passive_id = m.rep.local_comm_id;
		}
		break;
	case CM_ATTR_RTU:
		e = find(all, p, m.rtu.local_comm_id, m.rtu.remote_comm_id);
		if (e)
			e->rtu = true;
		break;
	case CM_ATTR_REJ:
		e = find(all, p, m.rej.local_comm_id, m.rej.remote_comm_id);
		if (e)
			e->rej = true;
		all->of_stale += m.rej.reason == CM_REJ_STALE_CONN;
		break;
	case CM_ATTR_DREQ:
		e = find(all, p, m.dreq.local_comm_id, m.dreq.remote_comm_id);
		if (e)
			e->dreq = true;
		break;
	case CM_ATTR_DREP:
		e = find(all, p, m.drep.local_comm_id, m.drep.remote_comm_id);
		if (e)
			e->drep = true;
		break;
	default: /* SIDR, MRA: no part of an exchange */
		return m.hdr.attr_id;
	}
	if (!e && (m.hdr.attr_id == CM_ATTR_DREQ || m.hdr.attr_id == CM_ATTR_DREP))
		all->late++;
	else if (!e)
		all->astray++;
	return m.hdr.attr_id;
}

/* False if an exchange is not complete. */
static bool judge(const struct exchanges *all, bool cut_short)
{
	unsigned int unanswered = 0, unconfirmed = 0, undisconnected = 0, rejected = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct exchange *e = &all->e[i];

		unanswered += !e->rep && !e->rej;
		unconfirmed += e->rep && !e->rej && !e->rtu;
		undisconnected += e->dreq && !e->drep;
		rejected += e->rej;
	}
	if (all->count)
		printf(", %zu connections", all->count);
	if (rejected)
		printf(", %u rejected", rejected);
	if (all->of_stale)
		printf(" (%u REJs for stale connections)", all->of_stale);
	if (all->unread)
		printf(", %u CM messages that are none", all->unread);
	if (all->astray)
		printf(", %u CM messages of no connection", all->astray);
	if (all->late)
		printf(", %u DREQs and DREPs of connections before", all->late);
	if (cut_short)
		return !all->unread;
	if (unanswered)
		printf(", %u REQs unanswered", unanswered);
	if (unconfirmed)
		printf(", %u REPs unconfirmed", unconfirmed);
	if (undisconnected)
		printf(", %u DREQs unanswered", undisconnected);
	return !unanswered && !unconfirmed && !undisconnected && !all->unread && !all->astray;
}

int main(int argc, char **argv)
{
	bool cut_short = argc > 1 && strcmp(argv[1], "--cut-short") == 0, complete;
	unsigned int bad_icrc = 0, bad_header = 0;
	bool refused;
	struct roce_packets all = {0};
	struct exchanges cm = {0};

	for (int i = 1 + cut_short; i < argc; i++) {
		int rc = roce_pcap_read(&all, argv[i]);

		if (rc) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-rc));
			return 1;
		}
	}
	for (size_t i = 0; i < all.count; i++) {
		const struct roce_packet *p = &all.packet[i];
		uint8_t again[PKT_HDR_MAX];
		uint16_t attr_id = 0;
		struct pkt_hdr h;
		int len;

		if (p->udp_len <= ICRC_LEN || !icrc_check(&p->flow, p->ip_id, p->udp, p->udp_len)) {
			printf("%s frame %d: bad ICRC\n", p->file, p->frame);
			bad_icrc++;
			continue;
		}
		len = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);
		if (len < 0 || pkt_hdr_encode(&h, again) != (size_t)len ||
		    memcmp(again, p->udp, (size_t)len)) {
			printf("%s frame %d: malformed header\n", p->file, p->frame);
			bad_header++;
			continue;
		}
		resent_look(p, &h);
		ids_look(p, &h);
		if (h.bth.dqpn == GSI_QPN && p->udp_len - ICRC_LEN - (size_t)len == MAD_LEN)
			attr_id = look_at_mad(&cm, p, p->udp + len);
		else if (h.bth.dqpn == GSI_QPN)
			cm.unread++;
		endless_look(p, &h, attr_id);
	}
	printf("%zu packets", all.count);
	complete = judge(&cm, cut_short);
	resent_print();
	endless_print();
	refused = ids_print();
	free(cm.e);
	if (bad_icrc || bad_header)
		printf(", %u bad ICRCs, %u malformed headers", bad_icrc, bad_header);
	putchar('\n');
	return bad_icrc || bad_header || refused || !complete || all.count == 0;
}
