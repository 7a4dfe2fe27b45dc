/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DCQCN's reaction point as it was published (SIGCOMM 2015, figures 6 and 7, with the parameters of
 * section 5), reckoned apart from weft's: in floating point, event by event, each timer by itself.
 * What adapters have besides is switched off until a test says otherwise.
 */
#ifndef WEFT_TESTS_DCQCN_MODEL_H
#define WEFT_TESTS_DCQCN_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define MODEL_TIMER_NS 55000u
#define MODEL_G	       (1.0 / 256)
#define MODEL_LEAST    1.0 /* Mb/s: weft's own, so that a rate comes back */

struct model {
	double line, rc, rt, alpha; /* Mb/s */
	int t, b;
	double bytes;
	uint64_t t_at, alpha_at; /* ns; 0: there was no notification yet */
	/* Parameters of adapters. */
	double first;	 /* Mb/s that the first notification takes from; the line's */
	double part;	 /* of alpha that is taken; 1/2 */
	uint64_t quiet;	 /* ns after a notification that takes, in which none does; 0 */
	uint64_t cut_at; /* that notification; 0: there was none */
	/* When the rate that was becomes the one to come back to; always. */
	enum { MODEL_CLAMPS, MODEL_CLAMPS_AFTER_TIME, MODEL_NEVER_CLAMPS } clamps;
};

static inline struct model model_of(double line)
{
	return (struct model){
		.line = line, .rc = line, .rt = line, .alpha = 1, .first = line, .part = 0.5};
}

static inline void model_raise(struct model *m)
{
	int most = m->t > m->b ? m->t : m->b, least = m->t < m->b ? m->t : m->b;

	if (least >= 5)
		m->rt += 200.0 * (least - 5 + 1);
	else if (most >= 5)
		m->rt += 40;
	if (m->rt > m->line)
		m->rt = m->line;
	m->rc = (m->rt + m->rc) / 2;
}

/* All timers up to then, in their order. */
static inline void model_run(struct model *m, uint64_t now)
{
	while (m->t_at && (m->t_at <= now || m->alpha_at <= now)) {
		if (m->t_at <= m->alpha_at) {
			m->t++;
			model_raise(m);
			m->t_at += MODEL_TIMER_NS;
		} else {
			m->alpha *= 1 - MODEL_G;
			m->alpha_at += MODEL_TIMER_NS;
		}
	}
}

static inline void model_cnp(struct model *m, uint64_t now)
{
	if (m->cut_at && now - m->cut_at < m->quiet)
		return;
	if (!m->cut_at)
		m->rc = m->rt = m->first;
	m->cut_at = now;
	if (m->clamps == MODEL_CLAMPS || (m->clamps == MODEL_CLAMPS_AFTER_TIME && m->t))
		m->rt = m->rc;
	m->rc *= 1 - m->alpha * m->part;
	if (m->rc < MODEL_LEAST)
		m->rc = MODEL_LEAST;
	m->alpha = m->alpha * (1 - MODEL_G) + MODEL_G;
	m->t = m->b = 0;
	m->bytes = 0;
	m->t_at = m->alpha_at = now + MODEL_TIMER_NS;
}

static inline void model_sent(struct model *m, double bytes)
{
	if (!m->t_at)
		return;
	for (m->bytes += bytes; m->bytes >= 10e6; m->bytes -= 10e6) {
		m->b++;
		model_raise(m);
	}
}

/* Is that rate its? None is as good as the line's. */
static inline bool model_agrees(const struct model *m, uint32_t kbps)
{
	return fabs((kbps ? kbps / 1000.0 : m->line) - m->rc) <= m->rc * 0.002;
}

#endif
