/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/control_client.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/errno_text.h"
#include "base/text.h"
#include "base/time.h"
#include "base/wiped.h"
#include "cli/cli.h"
#include "cli/control_request.h"
#include "cli/output.h"

/* A service whose places are taken, or that connects to a disk far away, is waited for so long. */
#define CALL_NS (60 * NSEC_PER_SEC)
#define WHO_NS	(5 * NSEC_PER_SEC) /* only to know which there are */

/* --- one request ------------------------------------------------------------------------------ */

static int wait_for(int fd, short events, uint64_t end)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = time_now_ns();
		int n = now < end ? poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		return n < 0 ? -errno : n ? 0 : -ETIMEDOUT;
	}
}

static int send_all(int fd, const char *text, size_t len, uint64_t end)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
		int error = 0;

		if (n < 0 && errno == EAGAIN)
			error = wait_for(fd, POLLOUT, end);
		else if (n < 0 && errno != EINTR)
			error = -errno;
		if (error)
			return error;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Up to the line feed. */
static int receive_line(int fd, uint64_t end, char **ret, size_t *ret_len, size_t *ret_room)
{
	for (;;) {
		ssize_t n;
		int error;

		if (*ret_len == *ret_room) {
			const size_t room = *ret_room ? 2 * *ret_room : 16384;
			char *more =
				room > CONFIG_ANSWER_MAX ? NULL : wiped_grow(*ret, *ret_len, room);

			if (!more)
				return -ENOMEM;
			*ret = more;
			*ret_room = room;
		}
		n = recv(fd, *ret + *ret_len, *ret_room - *ret_len, 0);
		if (n < 0 && errno == EAGAIN) {
			error = wait_for(fd, POLLIN, end);
			if (error)
				return error;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		*ret_len += (size_t)n;
		if ((*ret)[*ret_len - 1] == '\n') {
			--*ret_len;
			return 0;
		}
	}
}

static int explain(int error, const char *path, char *why, size_t room)
{
	if (error == -ECONNRESET || error == -EPIPE)
		snprintf(why, room,
			 "%s: the service has closed the connection, or ended; `weft "
			 "target ls` shows whether it did what it was told",
			 path);
	else if (error == -ETIMEDOUT)
		snprintf(why, room, "%s: the service does not answer", path);
	else if (error == -ECONNREFUSED)
		snprintf(why, room, "%s: no service listens there any more", path);
	else
		snprintf(why, room, "%s: %s", path, errno_text(-error));
	return error;
}

static int connect_to(const char *path, uint64_t end)
{
	for (;;) {
		int fd = control_connect(path);

		if (fd != -EAGAIN || time_now_ns() >= end) /* many stand in line */
			return fd == -EAGAIN ? -ETIMEDOUT : fd;
		usleep(10000);
	}
}

/* *ret_others: root asks what another user answers. */
static int exchange(const char *path, uint64_t end, const char *line, char **ret, size_t *ret_len,
		    size_t *ret_room, bool *ret_others)
{
	int fd = connect_to(path, end), error;

	if (fd < 0)
		return fd;
	*ret_others = !control_peer_is_ours(fd, NULL);
	error = *ret_others && geteuid() != 0 ? -EPERM : 0;
	if (!error)
		error = send_all(fd, line, strlen(line), end);
	if (!error)
		error = receive_line(fd, end, ret, ret_len, ret_room);
	close(fd);
	return error;
}

struct json_object *control_ask(const char *op)
{
	struct json_object *r = json_object_new_object();

	json_object_object_add(r, "weft", json_object_new_int(CONTROL_VERSION));
	json_object_object_add(r, "op", json_object_new_string(op));
	return r;
}

static int call(const char *path, uint64_t ns, struct json_object *request,
		struct json_object **ret, char *why, size_t room)
{
	char *line = config_line(request), *answer = NULL, text[200];
	size_t len = 0, answer_room = 0;
	struct json_object *v;
	bool others = false;
	int error;

	*ret = NULL;
	config_drop(request);
	error = line ? exchange(path, time_now_ns() + ns, line, &answer, &len, &answer_room,
				&others)
		     : -ENOMEM;
	wiped_free(line, line ? strlen(line) : 0);
	if (error) {
		wiped_free(answer, answer_room);
		return explain(error, path, why, room);
	}
	if (config_parse_answer(answer, len, ret, text, sizeof(text)) != 0) {
		snprintf(why, room, "%s: the answer is none: %s", path, text);
		error = -EPROTO;
	} else if (json_object_object_get_ex(*ret, "error", &v)) {
		snprintf(why, room, "%s", json_object_get_string(v));
		text_tame(why);
		error = -EINVAL;
	}
	if (*ret && others)
		json_object_object_add(*ret, CONTROL_OTHERS, json_object_new_boolean(true));
	wiped_free(answer, answer_room);
	return error;
}

int control_call(const char *path, struct json_object *request, struct json_object **ret, char *why,
		 size_t room)
{
	return call(path, CALL_NS, request, ret, why, room);
}

/* --- which service ---------------------------------------------------------------------------- */

struct found {
	char **paths;
	struct json_object **who; /* NULL: nobody answers there */
	size_t count, alive;
};

static void found_free(struct found *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->paths[i]);
		json_object_put(f->who ? f->who[i] : NULL);
	}
	free(f->paths);
	free(f->who);
}

static int find_all(struct found *f)
{
	char why[512];
	int error = control_list(&f->paths, &f->count, why, sizeof(why));

	if (error) {
		(void)cli_fail("%s; --service PATH says which socket is meant", why);
		return error;
	}
	f->who = calloc(f->count + 1, sizeof(*f->who));
	for (size_t i = 0; f->who && i < f->count; i++) {
		if (call(f->paths[i], WHO_NS, control_ask("who"), &f->who[i], why, sizeof(why)) !=
		    0) {
			json_object_put(f->who[i]);
			f->who[i] = NULL;
		}
		f->alive += f->who[i] != NULL;
	}
	return 0;
}

static bool has_subsystem(struct json_object *who, const char *nqn)
{
	struct json_object *names;
	size_t n = json_object_object_get_ex(who, "subsystems", &names) &&
				   json_object_is_type(names, json_type_array)
			   ? json_object_array_length(names)
			   : 0;

	for (size_t i = 0; i < n; i++)
		if (strcmp(json_object_get_string(json_object_array_get_idx(names, i)) ?: "",
			   nqn) == 0)
			return true;
	return false;
}

static bool is_meant(const struct found *f, size_t i, const char *which)
{
	struct json_object *pid;
	char text[16] = "";

	if (!f->who[i])
		return false;
	if (json_object_object_get_ex(f->who[i], "pid", &pid))
		snprintf(text, sizeof(text), "%d", json_object_get_int(pid));
	return !which || strcmp(text, which) == 0 || has_subsystem(f->who[i], which);
}

/* A line for each that there is. */
static void tell_all(const struct found *f)
{
	for (size_t i = 0; i < f->count; i++) {
		struct json_object *v, *names;
		char line[600];
		size_t n;

		if (!f->who[i])
			continue;
		n = (size_t)snprintf(line, sizeof(line), "  %d",
				     json_object_object_get_ex(f->who[i], "pid", &v)
					     ? json_object_get_int(v)
					     : 0);
		if (json_object_object_get_ex(f->who[i], "config", &v) && n < sizeof(line))
			n += (size_t)snprintf(line + n, sizeof(line) - n, "  %s",
					      json_object_get_string(v));
		(void)json_object_object_get_ex(f->who[i], "subsystems", &names);
		for (size_t k = 0; json_object_is_type(names, json_type_array) && k < 3 &&
				   k < json_object_array_length(names) && n < sizeof(line);
		     k++)
			n += (size_t)snprintf(
				line + n, sizeof(line) - n, "  %s",
				json_object_get_string(json_object_array_get_idx(names, k)));
		text_tame(line);
		fprintf(stderr, "%s\n", line);
	}
}

static int choose(const struct found *f, const char *which, char ret[CONTROL_PATH_MAX])
{
	size_t count = 0, at = 0;

	for (size_t i = 0; i < f->count; i++)
		if (is_meant(f, i, which)) {
			count++;
			at = i;
		}
	if (count == 1) {
		snprintf(ret, CONTROL_PATH_MAX, "%s", f->paths[at]);
		return 0;
	}
	if (!f->alive) {
		(void)cli_fail("no service of yours runs here; `weft serve` starts one, and "
			       "--service PATH says where its socket is if it is elsewhere");
		return -ENOENT;
	}
	if (count)
		(void)cli_fail("%zu services %s; which one is said by --service and a process, "
			       "one of its subsystems or its socket:",
			       count, which ? "serve that" : "of yours run here");
	else
		(void)cli_fail("no service is called %s by process or subsystem; there is:", which);
	tell_all(f);
	return -ENOENT;
}

int control_choose(const char *which, char ret[CONTROL_PATH_MAX])
{
	struct found f = {0};
	int error;

	if (which && strchr(which, '/')) {
		if (strlen(which) >= CONTROL_PATH_MAX) {
			(void)cli_fail("%s: the path of a socket has at most %d bytes", which,
				       CONTROL_PATH_MAX - 1);
			return -ENAMETOOLONG;
		}
		strcpy(ret, which);
		return 0;
	}
	error = find_all(&f);
	if (!error)
		error = choose(&f, which, ret);
	found_free(&f);
	return error;
}
