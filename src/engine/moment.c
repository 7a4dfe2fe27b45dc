/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/moment.h"

#include "base/bytes.h"
#include "base/units.h"

/* Two wake-ups, ours and the peer's, and what the peer does in between. */
#define SHORT_NS     (150 * NSEC_PER_USEC)
#define FEW	     4 /* packets: of streams the more come together the longer it takes */
#define ENOUGH_MIN   8u
#define ENOUGH_MAX   1024u
#define CREDIT_FIRST 4
#define CREDIT_MAX   8
#define CREDIT_COST  2 /* of a look in vain; one that finds something brings 1 */

void moment_init(struct moment *m)
{
	*m = (struct moment){.enough = ENOUGH_MIN, .credit = CREDIT_FIRST};
}

bool moment_pays(const struct moment *m)
{
	return m->short_sleeps >= m->enough;
}

static void looked(struct moment *m, bool found)
{
	m->credit = found ? min_of(m->credit + 1, CREDIT_MAX) : m->credit - CREDIT_COST;
	if (m->credit == CREDIT_MAX) {
		m->enough = ENOUGH_MIN;
	} else if (m->credit <= 0) {
		m->enough = min_of(m->enough * 2, ENOUGH_MAX);
		m->short_sleeps = 0;
		m->credit = CREDIT_FIRST;
	}
}

void moment_looked_in_vain(struct moment *m)
{
	looked(m, false);
}

void moment_finds(struct moment *m)
{
	m->finds = true;
}

void moment_sleeps(struct moment *m, uint64_t now)
{
	m->asleep = now;
}

void moment_awake(struct moment *m, uint64_t packets, uint64_t now)
{
	const uint64_t since = m->asleep;

	m->asleep = 0;
	if (m->finds)
		looked(m, packets > 0);
	m->finds = false;
	if (packets > FEW || (since && now - since > SHORT_NS))
		m->short_sleeps /= 2;
	else if (since && packets > 0)
		m->short_sleeps = min_of(m->short_sleeps + 1, ENOUGH_MAX);
}
