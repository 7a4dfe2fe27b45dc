/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/checks.h"

#define HOST_NAME "this host"
#define OURS	  "weft_" /* before the interface's name: devices of weft's */
#define OURS_IW	  "weft_iw_"
#define STOREYS	  2 /* between a port and who has the address: a VLAN on a bridge on a bond */

struct row {
	struct check check;
	void (*host)(struct doctor *);
	void (*iface)(struct doctor *, const struct iface *);
	void (*rnic)(struct doctor *, const struct rnic *);
	void (*peer)(struct doctor *, const struct path *);
};

static const struct row rows[] = {
#define HOST(id, ...)  {.check = {__VA_ARGS__}, .host = check_##id},
#define IFACE(id, ...) {.check = {__VA_ARGS__}, .iface = check_##id},
#define RNIC(id, ...)  {.check = {__VA_ARGS__}, .rnic = check_##id},
#define PEER(id, ...)  {.check = {__VA_ARGS__}, .peer = check_##id},
#include "doctor/checks.def"
#undef HOST
#undef IFACE
#undef RNIC
#undef PEER
};

int doctor_begin(struct doctor *d, const char *sys, const char *proc)
{
	int rc;

	*d = (struct doctor){.sys = sys, .proc = proc};
	rc = ifaces_read(&d->ifaces, &d->iface_count);
	if (rc == 0)
		rc = rnics_read(sys, &d->rnics, &d->rnic_count);
	if (rc)
		doctor_end(d);
	return rc;
}

void doctor_end(struct doctor *d)
{
	ifaces_free(d->ifaces, d->iface_count);
	free(d->rnics);
	free(d->wanted);
	report_free(&d->report);
	*d = (struct doctor){0};
}

/* ---- what is looked at ----------------------------------------------------------------------- */

static bool want_list(struct doctor *d)
{
	if (!d->wanted)
		d->wanted = calloc(d->iface_count + 1, sizeof(*d->wanted));
	return d->wanted != NULL;
}

static bool want_iface(struct doctor *d, const char *name)
{
	bool any = false;

	for (size_t i = 0; i < d->iface_count; i++)
		if (!strcmp(d->ifaces[i].name, name))
			any = d->wanted[i] = true;
	return any;
}

bool doctor_want(struct doctor *d, const char *name)
{
	if (!want_list(d))
		return false;
	if (want_iface(d, name))
		return true;
	for (size_t i = 0; i < d->rnic_count; i++)
		if (!strcmp(d->rnics[i].name, name))
			return want_iface(d, d->rnics[i].iface);
	if (!strncmp(name, OURS_IW, strlen(OURS_IW)) && want_iface(d, name + strlen(OURS_IW)))
		return true;
	return !strncmp(name, OURS, strlen(OURS)) && want_iface(d, name + strlen(OURS));
}

bool doctor_want_all(struct doctor *d)
{
	if (!want_list(d))
		return false;
	memset(d->wanted, true, d->iface_count * sizeof(*d->wanted));
	return true;
}

/* Whether one that is up and has an address stands on that: a VLAN, a bond, or one on the other. */
static bool carries(const struct doctor *d, const struct iface *low, unsigned storeys)
{
	for (size_t i = 0; i < d->iface_count; i++) {
		const struct iface *f = &d->ifaces[i];

		if ((f->lower == low->index || f->index == low->master) && f->enabled &&
		    (f->addressed || (storeys && carries(d, f, storeys - 1))))
			return true;
	}
	return false;
}

/* Loopback has no link that could be wrong, and a bridge without carrier nobody who is there: that
 * of containers that do not run. Of what an interface stands on, the hardware has one. */
static bool is_wanted(const struct doctor *d, size_t i)
{
	const struct iface *f = &d->ifaces[i];

	if (d->wanted)
		return d->wanted[i];
	return f->enabled && !f->loopback && (f->carrier || !f->bridge) &&
	       (f->addressed || (f->hardware && carries(d, f, STOREYS)));
}

/* A device whose interface is in another network namespace is nobody's here to look at, unless it
 * cannot be told. */
static bool is_wanted_rnic(const struct doctor *d, const struct rnic *r)
{
	if (!r->iface[0])
		return !d->wanted;
	for (size_t i = 0; i < d->iface_count; i++)
		if (!strcmp(d->ifaces[i].name, r->iface))
			return is_wanted(d, i);
	return false;
}

/* ---- looking --------------------------------------------------------------------------------- */

static void find_adapters(struct doctor *d)
{
	for (size_t i = 0; i < d->iface_count; i++)
		for (size_t k = 0; k < d->rnic_count; k++)
			d->ifaces[i].rnic |= d->rnics[k].adapter &&
					     !strcmp(d->rnics[k].iface, d->ifaces[i].name);
}

static void look_by(struct doctor *d, const struct row *row)
{
	struct report *r = &d->report;

	if (row->host) {
		report_turn(r, &row->check, HOST_NAME);
		row->host(d);
	}
	for (size_t i = 0; row->iface && i < d->iface_count; i++)
		if (is_wanted(d, i)) {
			report_turn(r, &row->check, d->ifaces[i].name);
			row->iface(d, &d->ifaces[i]);
		}
	for (size_t i = 0; row->rnic && i < d->rnic_count; i++)
		if (is_wanted_rnic(d, &d->rnics[i])) {
			report_turn(r, &row->check, d->rnics[i].name);
			row->rnic(d, &d->rnics[i]);
		}
	if (row->peer && d->path) {
		report_turn(r, &row->check, d->path->peer);
		row->peer(d, d->path);
	}
}

void doctor_look(struct doctor *d)
{
	find_adapters(d);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		look_by(d, &rows[i]);
}
