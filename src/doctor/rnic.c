/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/rnic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/files.h"

#define GIDS_LOOKED_AT 256

struct reading {
	const char *sys;
	struct rnic *v;
	size_t count;
	int rc;
};

/* Each GID says on which interface it is; what the first says is where the device is. */
static void see_iface(struct reading *r, struct rnic *d)
{
	for (int i = 0; i < GIDS_LOOKED_AT && !d->iface[0]; i++)
		if (file_line(r->sys, d->iface, sizeof(d->iface),
			      RNIC_CLASS "/%s/ports/1/gid_attrs/ndevs/%d", d->name, i) == -ENOENT)
			break;
	/* Where it has no GID yet: that below it, of a device of software. */
	if (!d->iface[0])
		(void)!file_line(r->sys, d->iface, sizeof(d->iface), RNIC_CLASS "/%s/parent",
				 d->name);
}

static void see(void *ctx, const char *name)
{
	struct reading *r = ctx;
	struct rnic *d, *v = realloc(r->v, (r->count + 1) * sizeof(*v));
	char text[64];

	if (!v) {
		r->rc = -ENOMEM;
		return;
	}
	r->v = v;
	d = &v[r->count++];
	*d = (struct rnic){0};
	snprintf(d->name, sizeof(d->name), "%s", name);
	(void)!file_line(r->sys, text, sizeof(text), RNIC_CLASS "/%s/ports/1/link_layer", name);
	d->ethernet = !strcmp(text, "Ethernet");
	(void)!file_line(r->sys, text, sizeof(text), RNIC_CLASS "/%s/node_type", name);
	d->iwarp = strstr(text, "RNIC") != NULL; /* "4: RNIC"; RoCE's are "1: CA" */
	/* rxe alone of RoCE's says by this file on which interface it was made. */
	d->rxe = !d->iwarp &&
		 file_line(r->sys, text, sizeof(text), RNIC_CLASS "/%s/parent", name) == 0;
	d->adapter = !d->rxe && file_line(r->sys, text, sizeof(text),
					  RNIC_CLASS "/%s/device/uevent", name) != -ENOENT;
	see_iface(r, d);
}

int rnics_read(const char *sys, struct rnic **ret, size_t *ret_count)
{
	struct reading r = {.sys = sys};
	int rc = file_names(sys, see, &r, RNIC_CLASS);

	if (rc == -ENOENT)
		rc = 0;
	if (rc == 0)
		rc = r.rc;
	if (rc) {
		free(r.v);
		return rc;
	}
	*ret = r.v;
	*ret_count = r.count;
	return 0;
}
