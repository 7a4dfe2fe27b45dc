/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/rdma/data_way.h"

#include "base/compiler.h"
#include "base/units.h"

#define PAUSE_MIN_NS (50 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS (2 * NSEC_PER_SEC)

static uint64_t middle(const uint64_t v[DATA_WAY_SPANS])
{
	const uint64_t low = min_of(v[0], v[1]), high = max_of(v[0], v[1]);
	const uint64_t capped = min_of(high, v[2]);

	return max_of(low, capped);
}

static void begin_span(struct data_way *w, bool other, unsigned int skip, uint64_t now_ns)
{
	w->other = other;
	w->skip = skip;
	w->left = w->length;
	w->begun_ns = now_ns;
}

/* As many as are under way may be sent at once, and none for a while: of a few times as many that
 * makes no difference. */
static void begin_trial(struct data_way *w, unsigned int under_way, uint64_t now_ns)
{
	w->trial = true;
	w->span = 0;
	w->length = max_of((unsigned int)DATA_WAY_SPAN, 4 * under_way);
	begin_span(w, false, under_way, now_ns);
}

static void end_trial(struct data_way *w, uint64_t now_ns)
{
	uint64_t known = middle(w->took_ns[false]), other = middle(w->took_ns[true]);

	w->trial = w->other = false;
	if (other + other / 8 < known) {
		w->fetched = !w->fetched;
		w->pause_ns = PAUSE_MIN_NS;
	} else {
		w->pause_ns = min_of(w->pause_ns * 2, PAUSE_MAX_NS);
	}
	w->next_ns = now_ns + w->pause_ns;
}

static void sent_one(struct data_way *w, unsigned int under_way, uint64_t now_ns)
{
	if (w->skip) {
		if (!--w->skip)
			w->begun_ns = now_ns;
		return;
	}
	if (--w->left)
		return;
	w->took_ns[w->other][w->span++ / 2] = now_ns - w->begun_ns;
	if (w->span == 2 * DATA_WAY_SPANS)
		end_trial(w, now_ns);
	else
		begin_span(w, !w->other, under_way, now_ns);
}

bool data_way_fetches(struct data_way *w, unsigned int under_way, uint64_t now_ns)
{
	if (under_way < DATA_WAY_DEEP)
		return false;
	if (!w->pause_ns) { /* how it begins says little */
		w->pause_ns = PAUSE_MIN_NS;
		w->next_ns = now_ns + PAUSE_MIN_NS;
	}
	if (w->trial) {
		sent_one(w, under_way, now_ns);
	} else if (now_ns >= w->next_ns) {
		begin_trial(w, under_way, now_ns);
	}
	return w->fetched != w->other;
}
