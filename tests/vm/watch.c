/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a program that is built on libweft-nvmf is told of namespaces: at first, and after each
 * event that they have changed, a line has those that are there with their sizes in bytes.
 *
 * usage: watch URI
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/nvmf.h>

enum { ROOM = 64, LOG_BYTES = 4096, GET_LOG_PAGE = 0x02, CHANGED_NAMESPACES = 0x04 };

static struct weft_group *group;
static volatile sig_atomic_t stopped;
static unsigned int events;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
	weft_group_interrupt(group);
}

/* A notice (type 2) that the namespaces' attributes have changed (0), by log page 4. */
static void tell_event(void *arg, struct weft_ctrl *c, uint32_t event)
{
	(void)arg;
	(void)c;
	if (event == (2 | CHANGED_NAMESPACES << 16))
		events++;
	else
		printf("event %08x\n", event);
}

static void tell_state(void *arg, struct weft_ctrl *c, enum weft_ctrl_state from,
		       enum weft_ctrl_state to)
{
	(void)arg;
	(void)from;
	printf("%s%s%s\n", weft_ctrl_state_name(to), to == WEFT_CTRL_RECONNECTING ? ": " : "",
	       to == WEFT_CTRL_RECONNECTING ? weft_ctrl_error(c) : "");
	fflush(stdout);
}

/* Which have changed. That it is read lets the next event come (Base 5.16.1.5). */
static int tell_changed(struct weft_ctrl *c)
{
	unsigned char page[LOG_BYTES];
	struct iovec iov = {page, sizeof(page)};
	struct weft_command log = {.opcode = GET_LOG_PAGE,
				   .nsid = 0xffffffff,
				   .cdw10 = (LOG_BYTES / 4 - 1) << 16 | CHANGED_NAMESPACES};
	struct weft_result result;
	int err = weft_queue_exec(weft_ctrl_admin_queue(c), &log, &iov, 1, 0, &result);

	if (err)
		return err;
	printf("changed:");
	for (unsigned int at = 0; at < LOG_BYTES; at += 4) {
		uint32_t nsid = page[at] | page[at + 1] << 8 | page[at + 2] << 16 |
				(uint32_t)page[at + 3] << 24;

		if (!nsid)
			break;
		printf(" %u", nsid);
	}
	printf("; ");
	return 0;
}

static int tell_namespaces(struct weft_ctrl *c)
{
	uint32_t ids[ROOM];
	int count = weft_ctrl_namespaces(c, 0, ids, ROOM);

	if (count < 0)
		return count;
	printf("there:");
	for (int i = 0; i < count; i++) {
		struct weft_namespace ns;
		int err = weft_ctrl_namespace(c, ids[i], &ns, sizeof(ns));

		if (err == -ENODEV) /* it has gone meanwhile; an event is on its way */
			continue;
		if (err)
			return err;
		printf(" %u=%llu", ids[i], (unsigned long long)(ns.blocks * ns.block_bytes));
	}
	printf("\n");
	fflush(stdout);
	return 0;
}

static int watch(struct weft_ctrl *c)
{
	unsigned int told = 0;
	int err = tell_namespaces(c);

	while (!err && !stopped) {
		if (weft_ctrl_state(c) == WEFT_CTRL_FAILED)
			return -ENOTCONN;
		if (told == events) {
			weft_group_wait(group, -1);
			continue;
		}
		told = events;
		err = tell_changed(c);
		if (!err)
			err = tell_namespaces(c);
	}
	return stopped ? 0 : err;
}

int main(int argc, char **argv)
{
	struct weft_options *o;
	struct weft_ctrl *c;
	int err;

	if (argc != 2 || weft_group_create(&group) || weft_options_create(&o)) {
		fprintf(stderr, "usage: watch URI\n");
		return 2;
	}
	signal(SIGTERM, stop);
	if (weft_options_set_uri(o, argv[1]) || weft_options_set_event_fn(o, tell_event, NULL) ||
	    weft_options_set_state_fn(o, tell_state, NULL) ||
	    weft_options_set_command_timeout_ms(o, 110000) || weft_ctrl_open(group, o, &c)) {
		fprintf(stderr, "%s\n", weft_options_error(o));
		return 1;
	}
	weft_options_destroy(o);
	err = watch(c);
	if (err)
		fprintf(stderr, "%s: %s\n", strerror(-err), weft_ctrl_error(c));
	if (weft_ctrl_close(c) && !err)
		err = -EIO;
	weft_group_destroy(group);
	return err != 0;
}
