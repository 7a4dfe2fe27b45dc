/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host: room for what comes, the clock, and what saves power. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"
#include "doctor/files.h"

#define RMEM "sys/net/core/rmem_max"
#define RMEM_LARGE                                                                                \
	(1u << 20)	      /* doubled by the kernel, from there on the window is the large one \
			       */
#define RMEM_PLAIN 212992u    /* Linux's own */
#define RMEM_BEST  (8u << 20) /* what a socket of weft's asks for */
#define CPU	   "devices/system/cpu"
#define CLOCK	   "devices/system/clocksource/clocksource0"
#define DEEP_US	   50
#define SQUEEZED   100 /* one in so many rounds */

void check_rmem(struct doctor *d)
{
	struct report *r = &d->report;
	uint64_t max;
	int rc = file_number(d->proc, &max, RMEM);

	if (rc) {
		report_found(r, DOCTOR_UNKNOWN, "net.core.rmem_max is not to be seen here: %s",
			     errno_text(-rc));
		return;
	}
	if (max >= RMEM_LARGE) {
		report_found(r, DOCTOR_OK, "net.core.rmem_max is %llu", (unsigned long long)max);
		return;
	}
	if (max < RMEM_PLAIN)
		report_found(r, DOCTOR_WARNING,
			     "net.core.rmem_max is %llu, less than Linux's own %u: a window does "
			     "not fit, and packets are lost",
			     (unsigned long long)max, RMEM_PLAIN);
	else
		report_found(r, DOCTOR_NOTE,
			     "net.core.rmem_max is %llu: a queue pair has 256 KiB on the way "
			     "instead of 512, unless root's broker serves it",
			     (unsigned long long)max);
	report_mend(r, "sudo sysctl -w net.core.rmem_max=%u", RMEM_BEST);
}

/* ---- losses ---------------------------------------------------------------------------------- */

struct udp {
	uint64_t in, no_room; /* of all sockets */
	uint64_t drops;	      /* of those of port 4791 */
	uint64_t columns[2];  /* of the header line: InDatagrams, RcvbufErrors */
	bool header;
};

static void see_snmp(void *ctx, char *line)
{
	struct udp *u = ctx;
	char *rest = line, *word;
	uint64_t at = 0;

	if (strncmp(line, "Udp: ", 5) != 0)
		return;
	while ((word = strsep(&rest, " "))) {
		if (!u->header && !strcmp(word, "InDatagrams"))
			u->columns[0] = at;
		else if (!u->header && !strcmp(word, "RcvbufErrors"))
			u->columns[1] = at;
		else if (u->header && at && at == u->columns[0])
			u->in += strtoull(word, NULL, 10);
		else if (u->header && at && at == u->columns[1])
			u->no_room += strtoull(word, NULL, 10);
		at++;
	}
	u->header = true;
}

static void see_snmp6(void *ctx, char *line)
{
	unsigned long long v;
	struct udp *u = ctx;

	if (sscanf(line, "Udp6InDatagrams %llu", &v) == 1)
		u->in += v;
	else if (sscanf(line, "Udp6RcvbufErrors %llu", &v) == 1)
		u->no_room += v;
}

static void see_socket(void *ctx, char *line)
{
	unsigned long long drops;
	struct udp *u = ctx;
	unsigned port;

	if (sscanf(line, " %*[0-9]: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		   &port, &drops) == 2 &&
	    port == 4791)
		u->drops += drops;
}

void check_udp_drops(struct doctor *d)
{
	struct report *r = &d->report;
	struct udp u = {0};
	int rc = file_lines(d->proc, "net/snmp", see_snmp, &u);

	if (rc) {
		report_found(r, DOCTOR_UNKNOWN, "%s/net/snmp: %s", d->proc, errno_text(-rc));
		return;
	}
	/* Where there is no IPv6 these are not there. */
	(void)!file_lines(d->proc, "net/snmp6", see_snmp6, &u);
	(void)!file_lines(d->proc, "net/udp", see_socket, &u);
	(void)!file_lines(d->proc, "net/udp6", see_socket, &u);
	if (u.drops)
		report_found(r, DOCTOR_WARNING,
			     "%llu datagrams found no room in the sockets of port 4791 that are "
			     "open now",
			     (unsigned long long)u.drops);
	else if (lost_too_many(u.no_room, u.in))
		report_found(r, DOCTOR_NOTE,
			     "%llu of %llu datagrams found no room in whichever sockets; weft's, "
			     "if any, have ended since",
			     (unsigned long long)u.no_room, (unsigned long long)u.in);
	else
		report_found(r, DOCTOR_OK, "%llu of %llu datagrams found no room",
			     (unsigned long long)u.no_room, (unsigned long long)u.in);
	if (u.drops || lost_too_many(u.no_room, u.in))
		report_mend(r,
			    "sudo sysctl -w net.core.rmem_max=%u    # then start the programs "
			    "anew; `weft stat` says which",
			    RMEM_BEST);
}

struct softnet {
	uint64_t processed, dropped, squeezed;
};

static void see_softnet(void *ctx, char *line)
{
	unsigned long long processed, dropped, squeezed;
	struct softnet *s = ctx;

	if (sscanf(line, "%llx %llx %llx", &processed, &dropped, &squeezed) == 3) {
		s->processed += processed;
		s->dropped += dropped;
		s->squeezed += squeezed;
	}
}

void check_softnet(struct doctor *d)
{
	struct report *r = &d->report;
	struct softnet s = {0};
	int rc = file_lines(d->proc, "net/softnet_stat", see_softnet, &s);

	if (rc) {
		report_found(r, DOCTOR_UNKNOWN, "%s/net/softnet_stat: %s", d->proc,
			     errno_text(-rc));
	} else if (lost_too_many(s.dropped, s.processed)) {
		report_found(r, DOCTOR_WARNING,
			     "%llu of %llu packets found no room in the processors' queues",
			     (unsigned long long)s.dropped, (unsigned long long)s.processed);
		report_mend(r, "sudo sysctl -w net.core.netdev_max_backlog=16384");
	} else if (s.squeezed > s.processed / SQUEEZED) {
		report_found(r, DOCTOR_NOTE,
			     "%llu times the kernel stopped to take packets while there were more",
			     (unsigned long long)s.squeezed);
		report_mend(r, "sudo sysctl -w net.core.netdev_budget=600 "
			       "net.core.netdev_budget_usecs=8000");
	} else {
		report_found(r, DOCTOR_OK, "%llu of %llu packets found no room",
			     (unsigned long long)s.dropped, (unsigned long long)s.processed);
	}
}

/* ---- clock and power ------------------------------------------------------------------------- */

/* The first of these among the words there; NULL: none. */
static const char *fast_clock(char *words)
{
	static const char *const fast[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"};
	char *rest;

	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		for (size_t i = 0; i < ARRAY_SIZE(fast); i++)
			if (!strcmp(w, fast[i]))
				return fast[i];
	return NULL;
}

void check_clock(struct doctor *d)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
	char now[64], all[256] = "";
	struct report *r = &d->report;
	const char *fast;
	int rc = file_line(d->sys, now, sizeof(now), CLOCK "/current_clocksource");

	if (rc) {
		report_found(r, DOCTOR_UNKNOWN, "the clock's source is not to be seen: %s",
			     errno_text(-rc));
		return;
	}
	now[strcspn(now, " ")] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		if (strcmp(now, slow[i]) != 0)
			continue;
		report_found(r, DOCTOR_WARNING, "the clock is read from %s, by a system call", now);
		(void)!file_line(d->sys, all, sizeof(all), CLOCK "/available_clocksource");
		fast = fast_clock(all);
		if (fast)
			report_mend(r, "echo %s | sudo tee /sys/" CLOCK "/current_clocksource",
				    fast);
		else
			report_mend(r, "sudo dmesg | grep -i -e clocksource -e tsc    # why the "
				       "TSC was given up");
		return;
	}
	report_found(r, DOCTOR_OK, "the clock is read from %s", now);
}

struct cpus {
	const char *sys;
	unsigned with, saving, slow;
	char governor[32], driver[32];
	bool idle;
	uint64_t deepest_us;
	char state[32];
	const char *cpu;
};

static bool is_cpu(const char *name)
{
	return !strncmp(name, "cpu", 3) && name[3] >= '0' && name[3] <= '9';
}

static void see_governor(void *ctx, const char *name)
{
	char governor[32], driver[32];
	struct cpus *c = ctx;

	if (!is_cpu(name) ||
	    file_line(c->sys, governor, sizeof(governor), CPU "/%s/cpufreq/scaling_governor", name))
		return;
	c->with++;
	(void)!file_line(c->sys, driver, sizeof(driver), CPU "/%s/cpufreq/scaling_driver", name);
	/* These drivers' "powersave" goes up under load, as others' "ondemand" does. */
	bool adapts = !strcmp(driver, "intel_pstate") || !strcmp(driver, "amd-pstate-epp") ||
		      strcmp(governor, "powersave") != 0;

	if (!strcmp(governor, "performance"))
		return;
	c->saving += adapts;
	c->slow += !adapts;
	memcpy(c->governor, governor, sizeof(c->governor));
}

void check_governor(struct doctor *d)
{
	struct report *r = &d->report;
	struct cpus c = {.sys = d->sys};
	int rc = file_names(d->sys, see_governor, &c, CPU);

	if (rc || !c.with) {
		report_found(r, DOCTOR_UNKNOWN,
			     "the kernel does not set the frequency: a virtual machine's host "
			     "does, or the firmware");
		return;
	}
	if (!c.slow && !c.saving) {
		report_found(r, DOCTOR_OK, "the governor of all %u processors is performance",
			     c.with);
		return;
	}
	report_found(r, c.slow ? DOCTOR_WARNING : DOCTOR_NOTE,
		     "the governor of %u of %u processors is %s%s", c.slow ? c.slow : c.saving,
		     c.with, c.governor,
		     c.slow ? ": the lowest frequency, always"
			    : ": the frequency follows the load with some delay");
	report_mend(r, "sudo cpupower frequency-set -g performance");
}

static void see_state(void *ctx, const char *name)
{
	struct cpus *c = ctx;
	uint64_t latency, off;

	if (file_number(c->sys, &latency, CPU "/%s/cpuidle/%s/latency", c->cpu, name))
		return;
	c->idle = true;
	if (file_number(c->sys, &off, CPU "/%s/cpuidle/%s/disable", c->cpu, name) == 0 && off)
		return;
	if (latency > c->deepest_us) {
		c->deepest_us = latency;
		(void)!file_line(c->sys, c->state, sizeof(c->state), CPU "/%s/cpuidle/%s/name",
				 c->cpu, name);
	}
}

static void see_idle(void *ctx, const char *name)
{
	struct cpus *c = ctx;

	c->cpu = name;
	if (is_cpu(name))
		(void)!file_names(c->sys, see_state, c, CPU "/%s/cpuidle", name);
}

void check_c_states(struct doctor *d)
{
	struct report *r = &d->report;
	struct cpus c = {.sys = d->sys};
	int rc = file_names(d->sys, see_idle, &c, CPU);

	if (rc || !c.idle) {
		report_found(r, DOCTOR_UNKNOWN,
			     "the kernel does not choose how deep processors sleep: a virtual "
			     "machine's host does, or the firmware");
	} else if (c.deepest_us > DEEP_US) {
		/* Every machine comes so: it costs those who count microseconds. */
		report_found(r, DOCTOR_NOTE,
			     "a processor may sleep as deep as %s, and takes %llu us "
			     "to wake up",
			     c.state, (unsigned long long)c.deepest_us);
		report_mend(r, "sudo cpupower idle-set -D %u", DEEP_US);
	} else {
		report_found(r, DOCTOR_OK, "a processor wakes up within %llu us",
			     (unsigned long long)c.deepest_us);
	}
}
