/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/udp/ip_id.h"

#include "base/bytes.h"

static struct ip_id_sender *ways_of(struct ip_id_table *t, uint64_t pair)
{
	return t->way[pair * 0x9e3779b97f4a7c15u >> (64 - IP_ID_SET_BITS)];
}

static bool lately(uint64_t then, uint64_t now)
{
	return then && now - then <= IP_ID_FORGET_NS;
}

static uint64_t heard_ns(const struct ip_id_sender *s)
{
	return max_of(s->small_ns, s->count_ns);
}

static struct ip_id_sender *find(struct ip_id_table *t, uint64_t pair, uint64_t now)
{
	struct ip_id_sender *way = &t->way[0][0] + t->recent;

	if (way->pair == pair && lately(heard_ns(way), now))
		return way;
	way = ways_of(t, pair);
	for (size_t i = 0; i < IP_ID_WAYS; i++)
		if (way[i].pair == pair && lately(heard_ns(&way[i]), now)) {
			t->recent = (uint32_t)(&way[i] - &t->way[0][0]);
			return &way[i];
		}
	return &t->unknown;
}

/* A place: of its forgotten self, else of the one that has been silent for the longest. */
static struct ip_id_sender *place_of(struct ip_id_table *t, uint64_t pair)
{
	struct ip_id_sender *way = ways_of(t, pair), *place = way;

	for (size_t i = 0; i < IP_ID_WAYS; i++) {
		if (way[i].pair == pair) {
			place = &way[i];
			break;
		}
		if (heard_ns(&way[i]) < heard_ns(place))
			place = &way[i];
	}
	*place = (struct ip_id_sender){.pair = pair};
	return place;
}

static uint64_t window(uint64_t silent_ns)
{
	return IP_ID_WINDOW + silent_ns / IP_ID_NS;
}

static bool counts_on(const struct ip_id_sender *s, uint16_t id, uint64_t now)
{
	uint64_t ahead = (uint16_t)(id - s->last), behind = (uint16_t)(s->last - id);

	if (!lately(s->count_ns, now))
		return false;
	if (s->unclear)
		return ahead <= IP_ID_WINDOW;
	/* Behind: packets that were overtaken or doubled on the way. */
	return behind <= IP_ID_WINDOW || ahead <= window(now - s->count_ns);
}

/* Does identification id follow from what the sender has done so far? */
static bool follows(const struct ip_id_sender *s, uint16_t id, uint64_t now)
{
	if (!heard_ns(s))
		return true;
	if (id < IP_ID_SMALL && (s->unclear || lately(s->small_ns, now)))
		return true;
	return counts_on(s, id, now);
}

/* Two packets that break the rule but agree with each other make a new one. */
static bool restarts(struct ip_id_sender *s, uint16_t id, uint64_t now)
{
	if (s->stray_ns)
		return (uint16_t)(id - s->stray) <= window(now - s->stray_ns);
	s->stray_ns = now;
	s->stray = id;
	return false;
}

/* What follows a 0 of a small sender is mostly a 0: single datagrams. The pieces of a cut
 * super-packet count, and after those of one that came whole the next begins at 0. */
static void guess_next(struct ip_id_sender *s, uint16_t id, int piece)
{
	s->seen = id;
	s->next = id >= IP_ID_SMALL || (id && piece < 0) ? (uint16_t)(id + 1) : 0;
}

bool ip_id_check(struct ip_id_table *t, const struct flow *f, const void *udp, size_t len,
		 int piece, uint64_t now, struct ip_id_found *ret)
{
	struct ip_id_sender *s;

	struct icrc headers = icrc_recall(&t->headers, f, len);

	*ret = (struct ip_id_found){0};
	if (!gid_is_ipv4(&f->sgid))
		return icrc_check_behind(headers, 0, udp, len);

	ret->pair = (uint64_t)ld_be32(f->sgid.raw + 12) << 32 | ld_be32(f->dgid.raw + 12);
	ret->sender = s = find(t, ret->pair, now);
	ret->id = piece > 0 ? (uint16_t)(s->seen + 1) : s->next;
	if (!icrc_check_behind(headers, ret->id, udp, len) &&
	    !icrc_solve_ip_id(f, udp, len, &ret->id))
		return false;
	if (!follows(s, ret->id, now) && !restarts(s, ret->id, now))
		return false;
	guess_next(s, ret->id, piece);
	return true;
}

void ip_id_accept(struct ip_id_table *t, const struct ip_id_found *found, uint64_t now)
{
	struct ip_id_sender *s = found->sender;
	uint16_t id = found->id;
	bool went_back;

	if (!s)
		return;
	/* Not before: a place is not lost to whoever sends junk. */
	if (s == &t->unknown) {
		s = place_of(t, found->pair);
		s->seen = t->unknown.seen;
		s->next = t->unknown.next;
		s->unclear = id < IP_ID_SMALL;
	}
	s->stray_ns = 0;
	/* Another of the same batch: what follows would write what is there. */
	if (id < IP_ID_SMALL && s->small_ns && s->small_ns == now)
		return;
	went_back = lately(s->count_ns, now) && (uint16_t)(s->last - id) < IP_ID_SMALL;
	if (id >= IP_ID_SMALL) {
		s->unclear = false;
	} else if (went_back || (!s->unclear && !counts_on(s, id, now))) {
		/* A counter would have gone on. */
		s->small_ns = now;
		if (s->unclear)
			s->count_ns = 0;
		s->unclear = false;
		return;
	} else if (lately(s->small_ns, now)) {
		s->small_ns = now;
		return;
	}
	s->count_ns = now;
	s->last = id;
}
