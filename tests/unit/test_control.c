/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The control socket of a service: its place, its clients, what they ask. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "base/heap.h"
#include "base/time.h"
#include "cli/control.h"
#include "cli/control_request.h"
#include "cli/words.h"
#include "../skip.h"

static char dir[] = "/tmp/weft-control-XXXXXX", path[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/weft-control-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir); /* nothing else is left there */
}

/* --- its place ------------------------------------------------------------------------------ */

static void listen_at(struct control_socket *s)
{
	char why[256] = "";

	if (control_listen(path, s, why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static void its_owner_alone_may_connect(void **state)
{
	struct control_socket s;
	struct stat st;
	pid_t pid = 0;
	int fd;

	(void)state;
	listen_at(&s);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	fd = control_connect(path);
	assert_true(fd >= 0);
	assert_true(control_peer_is_ours(fd, &pid));
	assert_int_equal(pid, getpid());
	close(fd);
	control_unlisten(&s);
	assert_int_equal(lstat(path, &st), -1);
	control_unlisten(&s); /* and once more is nothing */
}

static void a_dead_one_is_replaced_and_a_living_one_is_not(void **state)
{
	struct control_socket s, other;
	char why[256];

	(void)state;
	listen_at(&s);
	assert_int_equal(control_listen(path, &other, why, sizeof(why)), -EADDRINUSE);
	assert_non_null(strstr(why, path));
	close(s.fd); /* as one that was killed leaves it */
	assert_int_equal(control_connect(path), -ECONNREFUSED);
	listen_at(&other);
	/* At its end the first does not take away what is another's by now. */
	s.fd = open("/dev/null", O_RDONLY);
	control_unlisten(&s);
	close(control_connect(path));
	control_unlisten(&other);
}

static void what_is_no_socket_is_left_alone(void **state)
{
	struct control_socket s;
	char why[256], far[200];
	FILE *f = fopen(path, "w");

	(void)state;
	fclose(f);
	assert_int_equal(control_listen(path, &s, why, sizeof(why)), -EEXIST);
	assert_non_null(strstr(why, "no socket"));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(control_listen("/nonexistent/s", &s, why, sizeof(why)), -ENOENT);
	memset(far, 'x', sizeof(far));
	far[sizeof(far) - 1] = '\0';
	assert_int_equal(control_listen(far, &s, why, sizeof(why)), -ENAMETOOLONG);
}

static void sockets_of_a_user_are_in_a_directory_of_its_own(void **state)
{
	char directory[64], at[CONTROL_PATH_MAX], why[256], **paths;
	struct control_socket s;
	struct stat st;
	size_t count;

	(void)state;
	if (geteuid() == 0)
		SKIP_CASE("root's is the machine's");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	assert_int_equal(control_directory(at, why, sizeof(why)), 0);
	snprintf(directory, sizeof(directory), "%s/weft", dir);
	assert_string_equal(at, directory);
	assert_int_equal(control_list(&paths, &count, why, sizeof(why)), 0);
	assert_int_equal(count, 0);
	assert_int_equal(control_listen(NULL, &s, why, sizeof(why)), 0);
	assert_int_equal(stat(directory, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(control_list(&paths, &count, why, sizeof(why)), 0);
	assert_int_equal(count, 1);
	assert_string_equal(paths[0], s.path);
	free(paths[0]);
	free(paths);
	control_unlisten(&s);
	assert_int_equal(rmdir(directory), 0);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(control_directory(at, why, sizeof(why)), -ENOENT);
}

/* --- its clients ---------------------------------------------------------------------------- */

struct echo {
	struct control *control;
	uint64_t now_ns;
	unsigned int requests;
	size_t last_len;
	bool busy; /* what begins with "edit" is not carried out yet */
	unsigned int slow_ms;
};

static char *echo(void *ctx, pid_t pid, const char *line, size_t len, size_t *ret_len,
		  bool *ret_later)
{
	struct echo *e = ctx;
	char *text;

	assert_int_equal(pid, getpid());
	e->requests++;
	e->last_len = len;
	usleep(e->slow_ms * 1000);
	*ret_later = e->busy && memcmp(line, "edit", 4) == 0;
	if (*ret_later)
		return NULL;
	text = malloc(len + 1);
	assert_non_null(text);
	memcpy(text, line, len);
	text[len] = '\n';
	*ret_len = len + 1;
	return text;
}

static void begin(struct echo *e)
{
	struct control_socket s;

	*e = (struct echo){.now_ns = time_now_ns()};
	listen_at(&s);
	assert_int_equal(control_create(&s, echo, e, &e->control), 0);
}

static int client(void)
{
	int fd = control_connect(path);

	assert_true(fd >= 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Turns, a second apart if that is wanted. */
static void turns(struct echo *e, int n, uint64_t step_ns)
{
	while (n--) {
		control_process(e->control, e->now_ns);
		e->now_ns += step_ns;
	}
}

static void hears(int fd, const char *text)
{
	char got[256];
	ssize_t n = recv(fd, got, sizeof(got), 0);

	if (!text) {
		assert_int_equal(n, 0);
		return;
	}
	assert_int_equal(n, strlen(text));
	assert_memory_equal(got, text, (size_t)n);
}

static void a_line_is_answered_by_a_line(void **state)
{
	struct echo e;
	int fd, other;

	(void)state;
	begin(&e);
	fd = client();
	other = client();
	say(fd, "one li");
	turns(&e, 4, NSEC_PER_MSEC);
	assert_int_equal(e.requests, 0);
	say(other, "two\n");
	say(fd, "ne\nand more\n");
	turns(&e, 4, NSEC_PER_SEC / 4);
	hears(fd, "one line\n");
	hears(fd, NULL);
	hears(other, "two\n");
	hears(other, NULL);
	assert_int_equal(e.requests, 2);
	assert_int_equal(control_next_deadline(e.control), DEADLINE_NEVER);
	close(fd);
	close(other);
	control_destroy(e.control);
}

/* The service rests four times as long as a request took: who has asked meanwhile is not slow. */
static void who_waits_for_its_turn_is_not_let_go_of(void **state)
{
	struct echo e;
	int fd, other;

	(void)state;
	begin(&e);
	e.slow_ms = 1500;
	fd = client();
	say(fd, "long\n");
	turns(&e, 3, NSEC_PER_MSEC);
	e.slow_ms = 0;
	other = client();
	say(other, "short\n");
	turns(&e, 20, NSEC_PER_SEC / 2);
	hears(fd, "long\n");
	hears(other, "short\n");
	close(fd);
	close(other);
	control_destroy(e.control);
}

static void who_goes_before_its_request_is_whole_has_asked_for_nothing(void **state)
{
	struct echo e;
	int fd;

	(void)state;
	begin(&e);
	fd = client();
	say(fd, "clear every");
	turns(&e, 3, NSEC_PER_MSEC);
	close(fd);
	turns(&e, 3, NSEC_PER_MSEC);
	assert_int_equal(e.requests, 0);
	assert_int_equal(control_next_deadline(e.control), DEADLINE_NEVER);
	control_destroy(e.control);
}

static void who_stalls_makes_room_and_others_wait_for_it(void **state)
{
	enum { N = 20 };
	struct echo e;
	int stalled[N], fd;

	(void)state;
	begin(&e);
	for (int i = 0; i < N; i++) {
		/* As many as wait in the kernel's line are not there yet. */
		stalled[i] = control_connect(path);
		if (stalled[i] >= 0)
			say(stalled[i], "{");
		turns(&e, 2, NSEC_PER_MSEC);
	}
	assert_true(control_next_deadline(e.control) < e.now_ns + 6 * NSEC_PER_SEC);
	turns(&e, 30, NSEC_PER_SEC);
	fd = client();
	say(fd, "me\n");
	turns(&e, 30, NSEC_PER_SEC);
	hears(fd, "me\n");
	for (int i = 0; i < N; i++)
		if (stalled[i] >= 0)
			close(stalled[i]);
	close(fd);
	control_destroy(e.control);
}

static void what_is_not_carried_out_yet_is_held_and_others_are_not(void **state)
{
	struct echo e;
	int first, second, gone, fd;

	(void)state;
	begin(&e);
	e.busy = true;
	first = client();
	turns(&e, 1, NSEC_PER_MSEC); /* each comes in a turn of its own */
	gone = client();
	turns(&e, 1, NSEC_PER_MSEC);
	second = client();
	turns(&e, 1, NSEC_PER_MSEC);
	say(second, "edit 2\n");
	say(gone, "edit, and leave\n");
	say(first, "edit 1\n");
	turns(&e, 12, NSEC_PER_SEC / 4);
	assert_int_equal(e.requests, 3);
	turns(&e, 20, NSEC_PER_SEC); /* longer than a connection has otherwise */
	fd = client();
	say(fd, "show\n");
	turns(&e, 4, NSEC_PER_SEC / 4);
	hears(fd, "show\n");
	assert_int_equal(control_next_deadline(e.control), DEADLINE_NEVER);
	close(gone);
	turns(&e, 1, NSEC_PER_MSEC);
	assert_int_equal(e.requests, 4);
	control_resume(e.control, e.now_ns); /* only to be held again */
	turns(&e, 4, NSEC_PER_SEC / 4);
	assert_int_equal(e.requests, 6);
	e.busy = false;
	control_resume(e.control, e.now_ns);
	hears(first, "edit 1\n");
	assert_int_equal(e.requests, 7);
	turns(&e, 4, NSEC_PER_SEC / 4);
	hears(second, "edit 2\n");
	close(first);
	close(second);
	close(fd);
	control_destroy(e.control);
}

static void who_does_not_take_its_answer_is_let_go_of(void **state)
{
	static char text[1 << 20];
	struct echo e;
	int fd = -1;
	size_t sent = 0;

	(void)state;
	begin(&e);
	fd = client();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 2] = '\n';
	while (sent < sizeof(text) - 1) {
		ssize_t n = send(fd, text + sent, sizeof(text) - 1 - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		turns(&e, 1, NSEC_PER_MSEC);
	}
	turns(&e, 100, NSEC_PER_MSEC);
	assert_int_equal(e.requests, 1);
	assert_int_equal(e.last_len, sizeof(text) - 2);
	assert_true(control_next_deadline(e.control) != DEADLINE_NEVER);
	turns(&e, 10, NSEC_PER_SEC);
	assert_int_equal(control_next_deadline(e.control), DEADLINE_NEVER);
	close(fd);
	control_destroy(e.control);
}

static void a_request_has_an_end(void **state)
{
	static char text[1 << 16];
	struct echo e;
	size_t sent = 0;
	int fd;

	(void)state;
	begin(&e);
	fd = client();
	memset(text, 'x', sizeof(text));
	for (;;) {
		ssize_t n = send(fd, text, sizeof(text), MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		sent += n > 0 ? (size_t)n : 0;
		assert_true(sent < 4 * (size_t)CONTROL_REQUEST_MAX);
		turns(&e, 1, 0);
	}
	assert_int_equal(errno, EPIPE);
	assert_int_equal(e.requests, 0);
	close(fd);
	control_destroy(e.control);
}

/* --- what they ask -------------------------------------------------------------------------- */

struct fake {
	struct control_service service;
	struct config *config;
	int fails;
	unsigned int measured;
};

static const struct config *fake_config(void *ctx)
{
	return ((struct fake *)ctx)->config;
}

static int fake_become(void *ctx, struct config *to, size_t *ret_steps, char *why, size_t room)
{
	struct fake *f = ctx;

	if (f->fails) {
		snprintf(why, room, "subsystems[0].namespaces[0].device.path: it is not to be");
		return f->fails;
	}
	config_free(f->config);
	f->config = to;
	*ret_steps = 3;
	return 0;
}

static void fake_measure(void *ctx)
{
	((struct fake *)ctx)->measured++;
}

static void fake_tell(void *ctx, struct json_object *obj)
{
	(void)ctx;
	json_object_object_add(obj, "pid", json_object_new_int(7));
}

static void fake_namespaces(void *ctx, struct json_object *list)
{
	(void)ctx;
	json_object_array_add(list, json_object_new_int(1));
}

/* ' for ". */
static char *quoted(const char *text)
{
	char *copy = strdup(text);

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

#define S "nqn.2026-11.org.example:s"
#define H "nqn.2026-11.org.example:h"

static void fake_begin(struct fake *f)
{
	char *text = quoted("{'hosts':[{'nqn':'" H "','dhchap':{'key':'DHHC-1:secret'}}],"
			    "'subsystems':[{'nqn':'" S "','namespaces':[{'nsid':3,'enable':1,"
			    "'device':{'path':'mem:1m'}}]}]}");
	struct json_object *doc;
	char why[256];

	*f = (struct fake){.service = {.ctx = f,
				       .config = fake_config,
				       .become = fake_become,
				       .measure = fake_measure,
				       .tell = fake_tell,
				       .tell_namespaces = fake_namespaces}};
	assert_int_equal(config_parse_text(text, strlen(text), &doc, why, sizeof(why)), 0);
	assert_int_equal(config_read(doc, &f->config, why, sizeof(why)), 0);
	free(text);
}

/* The answer is this, or begins so. */
static void asks(struct fake *f, const char *request, const char *answer)
{
	char *line = quoted(request), *want = quoted(answer), *got;
	size_t len;
	bool later;

	got = control_request(&f->service, line, strlen(line), &len, &later);
	assert_non_null(got);
	assert_int_equal(strlen(got), len);
	assert_int_equal(got[len - 1], '\n');
	assert_ptr_equal(strchr(got, '\n'), got + len - 1);
	if (strncmp(got, want, strlen(want)) != 0)
		fail_msg("%s: %s, not %s", line, got, want);
	free(got);
	free(want);
	free(line);
}

static void who_is_asked_says_who_it_is(void **state)
{
	struct fake f;

	(void)state;
	fake_begin(&f);
	asks(&f, "{'weft':1,'op':'who'}",
	     "{'edits': 0,'pid': 7,'subsystems': ['" S "'],'unsaved': 0,'weft': 1}");
	config_free(f.config);
}

static void keys_are_shown_to_who_asks_for_them(void **state)
{
	struct fake f;

	(void)state;
	fake_begin(&f);
	asks(&f, "{'weft':1,'op':'show'}",
	     "{'document': {'hosts': [{'dhchap': {'key': '********'},'nqn': '" H "'}]");
	asks(&f, "{'weft':1,'op':'show','secrets':true}",
	     "{'document': {'hosts': [{'dhchap': {'key': 'DHHC-1:secret'},'nqn': '" H "'}]");
	assert_string_equal(f.config->hosts[0].key, "DHHC-1:secret");
	config_free(f.config);
}

static void what_waits_has_no_answer_and_has_done_nothing(void **state)
{
	static const char create[] =
		"{'weft':1,'op':'edit','commands':[['create','/hosts/nqn.a:b']]}";
	char *line = quoted(create);
	bool later = false;
	struct fake f;
	size_t len;

	(void)state;
	fake_begin(&f);
	f.fails = -EINPROGRESS;
	assert_null(control_request(&f.service, line, strlen(line), &len, &later));
	assert_true(later);
	assert_int_equal(f.service.edits, 0);
	assert_int_equal(f.config->host_count, 1);
	f.fails = 0;
	asks(&f, create, "{'changes': 3,'created': [],");
	config_free(f.config);
	free(line);
}

static void edits_are_counted_until_they_are_saved(void **state)
{
	struct fake f;

	(void)state;
	fake_begin(&f);
	asks(&f,
	     "{'weft':1,'op':'edit','commands':[['create','/ports'],['create','/hosts/nqn.a:b']]}",
	     "{'changes': 3,'created': ['/ports/1'],'warnings': ['ports[1].addr.trtype: ");
	assert_int_equal(f.service.edits, 2);
	/* What changes nothing is none. */
	asks(&f, "{'weft':1,'op':'edit','commands':[['set','/ports/1','portid=1']]}",
	     "{'changes': 3,'created': [],'warnings': [],'weft': 1}");
	assert_int_equal(f.service.edits, 2);
	asks(&f, "{'weft':1,'op':'saved','edits':3}", "{'error': ");
	asks(&f, "{'weft':1,'op':'saved','edits':2}", "{'weft': 1}");
	asks(&f, "{'weft':1,'op':'who'}",
	     "{'edits': 2,'pid': 7,'subsystems': ['" S "'],'unsaved': 0,");
	/* Another was slower, and its older document is what the file has now. */
	asks(&f, "{'weft':1,'op':'saved','edits':1}", "{'weft': 1}");
	asks(&f, "{'weft':1,'op':'who'}",
	     "{'edits': 2,'pid': 7,'subsystems': ['" S "'],'unsaved': 1,");
	asks(&f, "{'weft':1,'op':'restore','document':{}}",
	     "{'changes': 3,'warnings': [],'weft': 1}");
	assert_int_equal(f.service.edits, 3);
	assert_int_equal(f.config->subsys_count, 0);
	config_free(f.config);
}

static void an_error_names_object_and_command_and_nothing_is_done(void **state)
{
	struct fake f;
	char *before, *after;

	(void)state;
	fake_begin(&f);
	before = config_text(f.config->doc);
	asks(&f, "{'weft':1,'op':'edit','commands':[['clear'],['remove','/hosts/" H "']]}",
	     "{'command': 1,'error': 'hosts[" H "]: there is no such host'");
	asks(&f, "{'weft':1,'op':'edit','commands':[['clear'],['crate']]}",
	     "{'command': 1,'error': ");
	asks(&f, "{'weft':1,'op':'edit','commands':[['set','/subsystems/" S "','cntlid_min=x']]}",
	     "{'error': 'subsystems[" S "].attr.cntlid_min: a number");
	f.fails = -EIO;
	asks(&f, "{'weft':1,'op':'edit','commands':[['create','/hosts/nqn.a:b']]}",
	     "{'error': 'subsystems[" S "].namespaces[3].device.path: it is not to be'");
	asks(&f,
	     "{'weft':1,'op':'restore','document':{'ports':[{'portid':9,'addr':{'trtype':'tcp'}}]}"
	     "}",
	     "{'error': 'ports[9].addr.traddr: ");
	after = config_text(f.config->doc);
	assert_string_equal(before, after);
	assert_int_equal(f.service.edits, 0);
	free(before);
	free(after);
	config_free(f.config);
}

/* One that is disabled is opened by nobody who would find out. */
static void a_size_that_is_none_is_refused(void **state)
{
	static const char *const none[] = {"12", "much", "1000", "0"};
	struct fake f;

	(void)state;
	fake_begin(&f);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		char request[200];

		snprintf(request, sizeof(request),
			 "{'weft':1,'op':'edit','commands':[['disable','/subsystems/" S
			 "/namespaces/3'],['resize','/subsystems/" S "/namespaces/3','%s']]}",
			 none[i]);
		asks(&f, request, "{'command': 1,'error': 'subsystems[" S "].namespaces[3]: ");
	}
	assert_int_equal(f.service.edits, 0);
	asks(&f,
	     "{'weft':1,'op':'edit','commands':[['resize','/subsystems/" S "/namespaces/3','2m']]}",
	     "{'changes': 3,");
	config_free(f.config);
}

static void a_disk_is_looked_at_without_an_edit(void **state)
{
	struct fake f;

	(void)state;
	fake_begin(&f);
	asks(&f, "{'weft':1,'op':'edit','commands':[['resize','/subsystems/" S "/namespaces/9']]}",
	     "{'command': 0,'error': 'subsystems[" S "].namespaces[9]: ");
	assert_int_equal(f.measured, 0);
	asks(&f, "{'weft':1,'op':'edit','commands':[['resize','/subsystems/" S "/namespaces/3']]}",
	     "{'changes': 3,");
	assert_int_equal(f.measured, 1);
	assert_int_equal(f.service.edits, 0);
	config_free(f.config);
}

static void what_is_no_request_is_answered(void **state)
{
	static const char *const requests[] = {
		"",
		"{",
		"[]",
		"{}",
		"{'weft':2,'op':'who'}",
		"{'weft':'1','op':'who'}",
		"{'weft':1}",
		"{'weft':1,'op':'whom'}",
		"{'weft':1,'op':7}",
		"{'weft':1,'op':'edit'}",
		"{'weft':1,'op':'edit','commands':[]}",
		"{'weft':1,'op':'edit','commands':{}}",
		"{'weft':1,'op':'edit','commands':[[]]}",
		"{'weft':1,'op':'edit','commands':['clear']}",
		"{'weft':1,'op':'edit','commands':[[7]]}",
		"{'weft':1,'op':'edit','commands':[['clear\\u0000']]}",
		"{'weft':1,'op':'edit','commands':[['ls']]}",
		"{'weft':1,'op':'edit','commands':[['save','/x']]}",
		"{'weft':1,'op':'restore'}",
		"{'weft':1,'op':'restore','document':[]}",
		"{'weft':1,'op':'saved'}",
		"{'weft':1,'op':'saved','edits':-1}",
	};
	struct fake f;

	(void)state;
	fake_begin(&f);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		char *line = quoted(requests[i]), *got;
		size_t len;
		bool later;

		got = control_request(&f.service, line, strlen(line), &len, &later);
		if (!got || !strstr(got, "\"error\": \""))
			fail_msg("%s: %s", line, got);
		free(got);
		free(line);
	}
	assert_int_equal(f.config->subsys_count, 1);
	config_free(f.config);
}

/* --- words ---------------------------------------------------------------------------------- */

static void splits(const char *text, int count, const char *joined)
{
	char line[200], got[200] = "", *words[4];
	int n;

	snprintf(line, sizeof(line), "%s", text);
	n = words_split(line, words, ARRAY_SIZE(words));
	assert_int_equal(n, count);
	for (int i = 0; i < n; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "<%s>", words[i]);
	assert_string_equal(got, joined);
}

static void a_line_is_words_as_a_shell_has_them(void **state)
{
	(void)state;
	splits("", 0, "");
	splits("  # all of it", 0, "");
	splits(" a  b\t#c", 2, "<a><b>");
	splits("a#b 'c d' \"e 'f'\" g\\ h", 4, "<a#b><c d><e 'f'><g h>");
	splits("model='a \\b'\"c\\\"\" ''", 2, "<model=a \\bc\"><>");
	splits("a\\", 1, "<a\\>");
	splits("a b c d e", -E2BIG, "");
	splits("a 'b", -EINVAL, "");
	splits("a \"b'", -EINVAL, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(its_owner_alone_may_connect, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_dead_one_is_replaced_and_a_living_one_is_not,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_socket_is_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(sockets_of_a_user_are_in_a_directory_of_its_own,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_line_is_answered_by_a_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_waits_for_its_turn_is_not_let_go_of, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			who_goes_before_its_request_is_whole_has_asked_for_nothing, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(who_stalls_makes_room_and_others_wait_for_it,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_not_carried_out_yet_is_held_and_others_are_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_does_not_take_its_answer_is_let_go_of, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_request_has_an_end, set_up, tear_down),
		cmocka_unit_test(who_is_asked_says_who_it_is),
		cmocka_unit_test(what_waits_has_no_answer_and_has_done_nothing),
		cmocka_unit_test(keys_are_shown_to_who_asks_for_them),
		cmocka_unit_test(edits_are_counted_until_they_are_saved),
		cmocka_unit_test(an_error_names_object_and_command_and_nothing_is_done),
		cmocka_unit_test(a_size_that_is_none_is_refused),
		cmocka_unit_test(a_disk_is_looked_at_without_an_edit),
		cmocka_unit_test(what_is_no_request_is_answered),
		cmocka_unit_test(a_line_is_words_as_a_shell_has_them),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
