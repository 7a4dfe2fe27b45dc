/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Controllers of the kernel's over fabrics: whether they are live, their queues, and their disks.
 */
#include <stdio.h>
#include <string.h>

#include "doctor/checks.h"
#include "doctor/files.h"

#define CLASS	  "class/nvme/%s"
#define DEPTH_MIN 32

struct nvme {
	struct doctor *doctor;
	unsigned controllers, wrong;
	uint64_t cpus;
};

static void see_cpu(void *ctx, const char *name)
{
	struct nvme *n = ctx;
	unsigned nr;
	char rest;

	n->cpus += sscanf(name, "cpu%u%c", &nr, &rest) == 1;
}

static void tell(struct nvme *n, enum severity severity, const char *controller, const char *what,
		 uint64_t number, const char *mend)
{
	n->wrong++;
	report_found(&n->doctor->report, severity, "%s %s %llu", controller, what,
		     (unsigned long long)number);
	report_mend(&n->doctor->report, "%s", mend);
}

static void see_controller(void *ctx, const char *name)
{
	struct nvme *n = ctx;
	struct report *r = &n->doctor->report;
	const char *sys = n->doctor->sys;
	char transport[16], state[32];
	uint64_t v;

	if (file_line(sys, transport, sizeof(transport), CLASS "/transport", name) ||
	    (strcmp(transport, "rdma") != 0 && strcmp(transport, "tcp") != 0))
		return;
	n->controllers++;
	if (file_line(sys, state, sizeof(state), CLASS "/state", name) == 0 &&
	    strcmp(state, "live") != 0) {
		n->wrong++;
		report_found(r, DOCTOR_ERROR, "%s, by %s, is %s", name, transport, state);
		report_mend(r, "sudo nvme list-subsys; sudo dmesg | grep %s", name);
	}
	/* The first is the admin queue. */
	if (file_number(sys, &v, CLASS "/queue_count", name) == 0 && v > 1 && v - 1 < n->cpus &&
	    v - 1 < 8)
		tell(n, DOCTOR_NOTE, name, "has fewer I/O queues than there are processors:", v - 1,
		     "nvme connect ... --nr-io-queues=N; and the target's limit");
	if (file_number(sys, &v, CLASS "/sqsize", name) == 0 && v + 1 < DEPTH_MIN)
		tell(n, DOCTOR_WARNING, name, "has queues for few commands:", v + 1,
		     "nvme connect ... --queue-size=128");
	/* -1, without end, is no number here; 0 gives up at once. */
	if (file_number(sys, &v, CLASS "/ctrl_loss_tmo", name) == 0 && v == 0)
		tell(n, DOCTOR_WARNING, name,
		     "is given up when its connection is lost, after seconds:", v,
		     "nvme connect ... --ctrl-loss-tmo=600");
}

static void see_disk(void *ctx, const char *name)
{
	struct nvme *n = ctx;
	char path[64], scheduler[128], transport[16];
	const char *now;
	unsigned nr;

	/* Of one with several paths its subsystem has the name, and paths have "c" in theirs. */
	if (sscanf(name, "nvme%u", &nr) != 1)
		return;
	snprintf(path, sizeof(path), "nvme%u", nr);
	if (file_line(n->doctor->sys, transport, sizeof(transport), CLASS "/transport", path) ||
	    (strcmp(transport, "rdma") != 0 && strcmp(transport, "tcp") != 0) ||
	    file_line(n->doctor->sys, scheduler, sizeof(scheduler), "block/%s/queue/scheduler",
		      name))
		return;
	now = strchr(scheduler, '[');
	if (!now || !strncmp(now, "[none]", 6))
		return;
	n->wrong++;
	report_found(&n->doctor->report, DOCTOR_NOTE,
		     "%s has an I/O scheduler (%s): the target has one, too", name, scheduler);
	report_mend(&n->doctor->report, "echo none | sudo tee /sys/block/%s/queue/scheduler", name);
}

void check_nvme(struct doctor *d)
{
	struct nvme n = {.doctor = d};

	(void)!file_names(d->sys, see_cpu, &n, "devices/system/cpu");
	/* Without the driver there is no directory, and nothing to look at. */
	(void)!file_names(d->sys, see_controller, &n, "class/nvme");
	if (n.controllers)
		(void)!file_names(d->sys, see_disk, &n, "block");
	if (n.controllers && !n.wrong)
		report_found(&d->report, DOCTOR_OK, "%u controllers over fabrics are well",
			     n.controllers);
}
