/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The functions behind the rows of checks.def. Each adds what it finds to the report; one that
 * adds nothing has nothing to look at here. */
#ifndef WEFT_DOCTOR_CHECKS_H
#define WEFT_DOCTOR_CHECKS_H

#include "doctor/doctor.h"
#include "doctor/ruleset.h"

#define HOST(id, ...)  void check_##id(struct doctor *);
#define IFACE(id, ...) void check_##id(struct doctor *, const struct iface *);
#define RNIC(id, ...)  void check_##id(struct doctor *, const struct rnic *);
#define PEER(id, ...)  void check_##id(struct doctor *, const struct path *);
#include "doctor/checks.def"
#undef HOST
#undef IFACE
#undef RNIC
#undef PEER

/* What check_firewall() and check_mark_rules() say of rules that were read. */
void firewall_judged(struct doctor *, const struct rulesets *);
void mark_rules_judged(struct doctor *, const struct rulesets *);

/* More than one in 100,000 is lost. */
static inline bool lost_too_many(uint64_t lost, uint64_t of)
{
	return lost && lost > of / 100000;
}

#endif
