/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/udp/ip_id.h"

#include "base/bytes.h"
#include "wire/icrc.h"

static struct ip_id_sender *ways_of(struct ip_id_table *t, uint64_t pair)
{
	return t->way[pair * 0x9e3779b97f4a7c15u >> (64 - IP_ID_SET_BITS)];
}

static struct ip_id_sender *find(struct ip_id_table *t, uint64_t pair, uint64_t now)
{
	struct ip_id_sender *way = ways_of(t, pair);

	for (size_t i = 0; i < IP_ID_WAYS; i++)
		if (way[i].pair == pair && now - way[i].heard_ns <= IP_ID_FORGET_NS)
			return &way[i];
	return NULL;
}

/* In the place of its forgotten self, else of the one that has been silent for the longest. */
static void remember(struct ip_id_table *t, const struct ip_id_sender *s)
{
	struct ip_id_sender *way = ways_of(t, s->pair), *place = way;

	for (size_t i = 0; i < IP_ID_WAYS; i++) {
		if (way[i].pair == s->pair) {
			place = &way[i];
			break;
		}
		if (way[i].heard_ns < place->heard_ns)
			place = &way[i];
	}
	*place = *s;
}

static uint64_t window(uint64_t silent_ns)
{
	return IP_ID_WINDOW + silent_ns / IP_ID_NS;
}

/* Does identification id follow from what the sender has done so far? */
static bool follows(const struct ip_id_sender *s, uint16_t id, uint64_t now)
{
	uint64_t ahead = (uint16_t)(id - s->last), behind = (uint16_t)(s->last - id);

	if (!s->heard_ns)
		return true;
	if (s->habit != IP_ID_COUNTS && id < IP_ID_SMALL)
		return true;
	if (s->habit == IP_ID_UNCLEAR)
		return ahead <= IP_ID_WINDOW;
	if (s->habit == IP_ID_STAYS_SMALL)
		return false;
	/* Behind: packets that were overtaken or doubled on the way. */
	return behind <= IP_ID_WINDOW || ahead <= window(now - s->heard_ns);
}

/* Two packets in a row that break the rule but agree with each other make a new one. */
static bool restarts(struct ip_id_sender *s, uint16_t id, uint64_t now)
{
	uint16_t ahead = (uint16_t)(id - s->stray);

	if (s->stray_ns && ahead <= window(now - s->stray_ns)) {
		s->habit = IP_ID_UNCLEAR;
		return true;
	}
	s->stray_ns = now;
	s->stray = id;
	return false;
}

static void accept(struct ip_id_sender *s, uint16_t id, int piece, uint64_t now)
{
	/* A counter would have gone on. */
	if (id >= IP_ID_SMALL)
		s->habit = IP_ID_COUNTS;
	else if (s->habit == IP_ID_UNCLEAR && s->heard_ns && (uint16_t)(s->last - id) < IP_ID_SMALL)
		s->habit = IP_ID_STAYS_SMALL;
	s->heard_ns = now;
	s->stray_ns = 0;
	s->last = id;
	/* What follows a 0 of a small sender is mostly a 0: single datagrams. The pieces of a cut
	 * super-packet count, and after those of one that came whole the next begins at 0. */
	if (s->habit == IP_ID_COUNTS)
		s->next = (uint16_t)(id + 1);
	else
		s->next = id && piece < 0 ? (uint16_t)(id + 1) : 0;
}

bool ip_id_check(struct ip_id_table *t, const struct flow *f, const void *udp, size_t len,
		 int piece, uint64_t now)
{
	struct ip_id_sender *s, unknown;
	uint16_t id;

	if (!gid_is_ipv4(&f->sgid))
		return icrc_check(f, 0, udp, len);

	unknown = (struct ip_id_sender){.pair = (uint64_t)ld_be32(f->sgid.raw + 12) << 32 |
						ld_be32(f->dgid.raw + 12)};
	s = find(t, unknown.pair, now);
	if (!s)
		s = &unknown;
	id = piece > 0 ? (uint16_t)(s->last + 1) : s->next;
	if (!icrc_check(f, id, udp, len) && !icrc_solve_ip_id(f, udp, len, &id))
		return false;
	if (!follows(s, id, now) && !restarts(s, id, now))
		return false;
	accept(s, id, piece, now);
	/* Not before: a place is not lost to whoever sends junk. */
	if (s == &unknown)
		remember(t, s);
	return true;
}
