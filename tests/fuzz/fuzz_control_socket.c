/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Input: what clients of a control socket do, and when, a step of two bytes each: what and who, and
 * how much. Who has sent a line has its answer, or the beginning of it, and nothing else; whose
 * line is not whole has nothing; and all of them come to an end.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "cli/control.h"

#define CLIENTS	   12 /* more than are let in */
#define ANSWER_MAX (1u << 20)

enum { CONNECT, SAY, END_LINE, TAKE, SHUT, CLOSE, TURN, PASS };

static struct client {
	int fd; /* -1: none */
	bool whole, shut;
	char first;	 /* of its line: what becomes of it */
	size_t len, got; /* of the line; of the answer */
} clients[CLIENTS];

static struct control *control;
static uint64_t now;
static char directory[] = "/tmp/weft-fuzz-XXXXXX", path[64];
static bool busy; /* requests that have to wait are not to be asked again yet */

/* A line that begins with H has to wait while that is so, one with N has no answer, and the answer
 * to one with B does not go into a socket at once. */
static size_t answer_len(char first, size_t len)
{
	return first == 'B' ? ANSWER_MAX - 1 : len + 2;
}

static char *answer(void *ctx, pid_t pid, const char *line, size_t len, size_t *ret_len,
		    bool *ret_later)
{
	char first = len ? line[0] : '\0', *text;

	must(!ctx && pid == getpid() && !memchr(line, '\n', len));
	*ret_later = first == 'H' && busy;
	if (*ret_later || first == 'N')
		return NULL;
	*ret_len = answer_len(first, len);
	text = malloc(*ret_len);
	memset(text, 'a' + (int)(len % 26), *ret_len);
	text[*ret_len - 1] = '\n';
	return text;
}

static void connect_client(struct client *c)
{
	int fd = c->fd < 0 ? control_connect(path) : -1;

	if (fd >= 0)
		*c = (struct client){.fd = fd};
}

static void close_client(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void say(struct client *c, char what, size_t len)
{
	char text[2048];
	ssize_t n;

	if (c->fd < 0 || c->shut)
		return;
	memset(text, what, len);
	n = send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n <= 0 || c->whole)
		return; /* what is behind a line is not heard */
	if (what == '\n') {
		c->whole = true;
		return;
	}
	if (!c->len)
		c->first = what;
	c->len += (size_t)n;
}

/* True: it has ended. */
static bool take(struct client *c, size_t room)
{
	static char text[ANSWER_MAX];
	const size_t len = answer_len(c->first, c->len);
	ssize_t n = c->fd < 0 ? 0 : recv(c->fd, text, room, MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++) {
		must(c->whole && c->first != 'N' && c->got < len);
		c->got++;
		must(text[i] == (c->got == len ? '\n' : (char)('a' + (int)(c->len % 26))));
	}
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void step(uint8_t what, uint8_t arg)
{
	static const char words[] = "HNBx";
	struct client *c = &clients[(what >> 3) % CLIENTS];

	switch (what & 7) {
	case CONNECT:
		connect_client(c);
		break;
	case SAY:
		say(c, words[arg & 3], 1u + (size_t)(arg >> 2) * 32);
		break;
	case END_LINE:
		say(c, '\n', 1);
		break;
	case TAKE:
		take(c, 1u + (size_t)arg * 256);
		break;
	case SHUT:
		if (c->fd >= 0)
			shutdown(c->fd, SHUT_WR);
		c->shut = true;
		break;
	case CLOSE:
		close_client(c);
		break;
	case TURN:
		busy = arg & 1;
		if (arg & 2)
			control_resume(control, now);
		control_process(control, now);
		break;
	case PASS:
		now += arg * (NSEC_PER_SEC / 16);
		break;
	}
}

static bool all_ended(void)
{
	bool all = true;

	for (int i = 0; i < CLIENTS; i++)
		while (clients[i].fd >= 0 && !take(&clients[i], ANSWER_MAX)) {
			all = false;
			if (recv(clients[i].fd, (char[1]){0}, 1, MSG_DONTWAIT | MSG_PEEK) < 0)
				break;
		}
	return all;
}

static void leave(void)
{
	rmdir(directory);
}

static void arrive(void)
{
	must(mkdtemp(directory) && atexit(leave) == 0);
	snprintf(path, sizeof(path), "%s/socket", directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_socket socket;
	char why[256];

	if (!path[0])
		arrive();
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){.fd = -1};
	now = NSEC_PER_SEC;
	busy = false;
	must(control_listen(path, &socket, why, sizeof(why)) == 0);
	must(control_create(&socket, answer, NULL, &control) == 0);
	for (; size >= 2; data += 2, size -= 2)
		step(data[0], data[1]);
	/* All that waits has its turn, and who says nothing more has had his time. */
	busy = false;
	for (int i = 0; !all_ended() || control_next_deadline(control) != DEADLINE_NEVER; i++) {
		must(i < 100 * CLIENTS);
		control_resume(control, now);
		control_process(control, now);
		now += NSEC_PER_SEC / 4;
	}
	for (int i = 0; i < CLIENTS; i++)
		close_client(&clients[i]);
	control_destroy(control);
	return 0;
}
