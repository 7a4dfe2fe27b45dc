/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The functions behind the rows of checks.def. Each adds what it finds to the report; one that
 * adds nothing has nothing to look at here. */
#ifndef WEFT_DOCTOR_CHECKS_H
#define WEFT_DOCTOR_CHECKS_H

#include "doctor/doctor.h"

#define HOST(id, ...)  void check_##id(struct doctor *);
#define IFACE(id, ...) void check_##id(struct doctor *, const struct iface *);
#define RNIC(id, ...)  void check_##id(struct doctor *, const struct rnic *);
#define PEER(id, ...)  void check_##id(struct doctor *, const struct path *);
#include "doctor/checks.def"
#undef HOST
#undef IFACE
#undef RNIC
#undef PEER

/* More than one in 100,000 is lost. */
static inline bool lost_too_many(uint64_t lost, uint64_t of)
{
	return lost && lost > of / 100000;
}

#endif
