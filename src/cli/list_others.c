/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/list_others.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "cli/list_view.h"
#include "cli/process.h"

#define COMMAND_MAX 4096
#define COMMAND_MIN 24 /* columns, on however narrow a terminal */

/* Who has an RNIC is a client of the broker, and listed as such. */
static bool is_other(const struct seen *s)
{
	return !seen_room(s, "core", 0) && !seen_room(s, "broker", 0) &&
	       (seen_room(s, "target", 0) || seen_room(s, "host", 0));
}

int others_find(struct snapshot *ret)
{
	int rc = snapshot_take(ret, 0);
	size_t n = 0;

	if (rc) { /* /proc is kept from us: nobody can be looked into */
		*ret = (struct snapshot){0};
		return rc == -ENOMEM ? rc : 0;
	}
	for (size_t i = 0; i < ret->count; i++) {
		if (is_other(&ret->v[i]))
			ret->v[n++] = ret->v[i];
		else
			seen_close(&ret->v[i]);
	}
	ret->count = n;
	return 0;
}

static void show_json(struct output *o, const struct seen *s)
{
	char buf[COMMAND_MAX];

	output_object(o, NULL, NULL);
	output_number(o, "pid", NULL, (uint64_t)s->pid, NULL);
	output_string(o, "comm", NULL, process_name(buf, sizeof(buf), s->pid));
	output_string(o, "command", NULL, process_command(buf, sizeof(buf), s->pid));
	output_number(o, "uid", NULL, s->uid, NULL);
	output_string(o, "user", NULL, user_name(buf, sizeof(buf), s->uid));
	output_string(o, "since", NULL, view_since(buf, time_now_ns() - s->since_ns, true));
	output_bool(o, "serves", NULL, seen_room(s, "target", 0));
	output_close(o);
}

static void show_table(struct output *o, const struct snapshot *others, int room)
{
	char user[64], command[COMMAND_MAX];
	int pid_width = 3, user_width = 4;

	for (size_t i = 0; i < others->count; i++) {
		pid_width = max_of(pid_width, snprintf(NULL, 0, "%d", others->v[i].pid));
		user_width = max_of(user_width,
				    (int)strlen(user_name(user, sizeof(user), others->v[i].uid)));
	}
	room = room ? max_of(room - pid_width - user_width - 4, COMMAND_MIN) : COMMAND_MAX;
	output_note(o, "by NVMe/TCP, without a broker; `weft stat PID` shows what they do:");
	output_object(o, NULL, "%*s  %-*s  COMMAND", pid_width, "PID", user_width, "USER");
	output_close(o);
	for (size_t i = 0; i < others->count; i++) {
		const struct seen *s = &others->v[i];

		process_command(command, sizeof(command), s->pid);
		text_cut(command, room);
		output_note(o, "%*d  %-*s  %s", pid_width, s->pid, user_width,
			    user_name(user, sizeof(user), s->uid), command);
	}
}

void others_show(struct output *o, const struct snapshot *others, int room)
{
	if (o->format != OUTPUT_JSON) {
		if (others->count)
			show_table(o, others, room);
		return;
	}
	output_list(o, "without_broker", NULL);
	for (size_t i = 0; i < others->count; i++)
		show_json(o, &others->v[i]);
	output_close(o);
}
