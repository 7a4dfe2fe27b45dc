/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The store behind an NBD server: nbdkit, with what it can be told to do without. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/time.h"
#include "store_bed.h"

#define MIB	 (1024u * 1024)
#define SIZE	 (64 * MIB)
#define ARGS_MAX 16

static char dir[] = "/tmp/weft-nbd-XXXXXX";
static char image[64], path[64], ready[64], uri[128]; /* ready: there when it listens */
static char port[8];				      /* "": by the socket at path */
static uint8_t out[40 * MIB], in[40 * MIB];
static pid_t server;
static struct store_engine *engine;
static const struct store_file_options writable = {.block_size = 512};

/* --- the server ------------------------------------------------------------------------------- */

static void server_start(const char *const *args)
{
	const char *argv[ARGS_MAX + 10] = {"nbdkit", "-f", "-P", ready};
	int n = 4;

	unlink(path);
	unlink(ready);
	argv[n++] = *port ? "-p" : "-U";
	argv[n++] = *port ? port : path;
	if (*port) {
		argv[n++] = "-i";
		argv[n++] = "127.0.0.1";
	}
	while (*args)
		argv[n++] = *args++;
	server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	assert_true(server > 0);
	for (int i = 0; access(ready, F_OK) != 0; i++) {
		assert_true(i < 1000);
		assert_int_equal(waitpid(server, NULL, WNOHANG), 0);
		usleep(10000);
	}
}

static void server_kill(int signal)
{
	if (server > 0) {
		kill(server, signal);
		assert_int_equal(waitpid(server, NULL, 0), server);
	}
	server = 0;
}

#define FILTERS(...) ((const char *const[]){__VA_ARGS__, "file", image, NULL})
#define PLAIN	     ((const char *const[]){"file", image, NULL})

static struct store *opened(void)
{
	const char *why = NULL;
	struct store *s;

	if (store_open(engine, uri, &writable, &s, &why) != 0)
		fail_msg("%s: %s", uri, why);
	return s;
}

static void refused(const struct store_file_options *o, int error, const char *word)
{
	const char *why = "";
	struct store *s;

	assert_int_equal(store_open(engine, uri, o, &s, &why), error);
	if (!strstr(why, word))
		fail_msg("\"%s\" does not say \"%s\"", why, word);
}

/* Until the server has been found again, or it did not come. */
static int run_patiently(struct store *s, enum store_opcode opcode, uint64_t len, void *buf)
{
	uint64_t deadline = time_now_ns() + 10 * NSEC_PER_SEC;
	int error;

	do {
		store_engine_clear(engine);
		store_engine_reap(engine);
		error = run(engine, s, opcode, 0, len, buf, 0);
		usleep(10000);
	} while (error == -ENOTCONN && time_now_ns() < deadline);
	return error;
}

/* --- cases ------------------------------------------------------------------------------------ */

static void write_and_read(struct store *s)
{
	static const struct {
		uint64_t offset, len;
	} ranges[] = {{0, 512}, {4096, 65536}, {1024, 40 * MIB}};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		uint64_t at = ranges[i].offset, len = ranges[i].len;

		fill(out, len, (unsigned)i);
		memset(in, 0xee, len);
		assert_int_equal(run(engine, s, STORE_WRITE, at, len, out, i == 1 ? STORE_FUA : 0),
				 0);
		assert_int_equal(run(engine, s, STORE_READ, at, len, in, 0), 0);
		assert_memory_equal(in, out, len);
	}
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(run(engine, s, STORE_ZERO, 4096, 8 * MIB, NULL, STORE_FUA), 0);
	assert_int_equal(run(engine, s, STORE_READ, 4096 - 512, 8 * MIB + 1024, in, 0), 0);
	assert_memory_equal(in, out + 4096 - 512 - 1024, 512);
	for (uint32_t i = 0; i < 8 * MIB; i++)
		assert_int_equal(in[512 + i], 0);
	assert_memory_equal(in + 512 + 8 * MIB, out + 4096 + 8 * MIB - 1024, 512);
	assert_int_equal(run(engine, s, STORE_DISCARD, 0, SIZE, NULL, 0), 0);
	assert_int_equal(run(engine, s, STORE_READ, 512, 0, in, 0), 0);
}

static void beyond_its_end(struct store *s)
{
	assert_int_equal(run(engine, s, STORE_READ, SIZE, 512, in, 0), -ERANGE);
	assert_int_equal(run(engine, s, STORE_WRITE, SIZE - 512, 1024, out, 0), -ERANGE);
}

static void holds_what_it_is_given(void **state)
{
	struct store *s;

	(void)state;
	server_start(PLAIN);
	s = opened();
	assert_int_equal(s->size, SIZE);
	assert_true(s->volatile_cache);
	write_and_read(s);
	beyond_its_end(s);
	store_destroy(s);
}

/* Servers that cannot do what is asked for: it is done in other ways. */
static void does_without(void **state)
{
	static const char *const without[][4] = {
		{"--filter=fua"},
		{"--filter=fua", "fuamode=emulate"},
		{"--filter=nozero", "zeromode=none"},
		{"--filter=nofilter"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(without); i++) {
		const char *args[ARGS_MAX] = {without[i][0], "file", image, without[i][1]};
		struct store *s;

		server_start(args);
		s = opened();
		write_and_read(s);
		store_destroy(s);
		server_kill(SIGTERM);
	}
}

/* What a server says of one command is that command's. */
static void tells_errors(void **state)
{
	struct store *s;

	(void)state;
	server_start(((const char *const[]){"--filter=error", "file", image, "error-pwrite=ENOSPC",
					    "error-pwrite-rate=100%", NULL}));
	s = opened();
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 4096, out, 0), -ENOSPC);
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), 0);
	store_destroy(s);
	server_kill(SIGTERM);
	server_start(((const char *const[]){"--filter=error", "file", image, "error-pread=EIO",
					    "error-pread-rate=100%", NULL}));
	s = opened();
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), -EIO);
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 4096, out, 0), 0);
	store_destroy(s);
}

static void says_what_is_wrong(void **state)
{
	static const struct store_file_options blocks = {.block_size = 4096},
					       reader = {.block_size = 512, .read_only = true};
	struct store *s;
	const char *why;

	(void)state;
	refused(&writable, -ENOENT, "No such file");
	server_start(FILTERS("-r"));
	refused(&writable, -EROFS, ",ro");
	assert_int_equal(store_open(engine, uri, &reader, &s, &why), 0);
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 512, out, 0), -EROFS);
	assert_int_equal(run(engine, s, STORE_READ, 0, 512, in, 0), 0);
	store_destroy(s);
	server_kill(SIGTERM);
	server_start(((const char *const[]){"--filter=blocksize-policy", "file", image,
					    "blocksize-minimum=4096", NULL}));
	refused(&writable, -EINVAL, "--block-size 4096");
	assert_int_equal(store_open(engine, uri, &blocks, &s, &why), 0);
	store_destroy(s);
	server_kill(SIGTERM);
	server_start(((const char *const[]){"memory", "0", NULL}));
	refused(&writable, -EINVAL, "is empty");
	server_kill(SIGTERM);
	server_start(((const char *const[]){"memory", "1000", NULL}));
	refused(&writable, -EINVAL, "512");
}

/* One that does not speak is given up; so is one that closes at once. */
static void gives_up_who_is_silent(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t before = time_now_ns();

	(void)state;
	unlink(path);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 4), 0);
	refused(&writable, -ETIMEDOUT, "does not answer");
	assert_true(time_now_ns() - before < 20 * NSEC_PER_SEC);
	close(fd);
	refused(&writable, -ECONNREFUSED, "refused");
}

static void comes_back(void **state)
{
	struct waited w = {.op = {.opcode = STORE_READ, .len = 4096, .iov_count = 1}};
	struct iovec iov = {in, 4096};
	struct store *s;

	(void)state;
	server_start(PLAIN);
	s = opened();
	fill(out, 4096, 3);
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 4096, out, STORE_FUA), 0);
	/* What is under way when it is killed fails, and what comes then. */
	kill(server, SIGSTOP);
	assert_int_equal(waitpid(server, NULL, WUNTRACED), server);
	w.op.iov = &iov;
	w.op.done = on_done;
	store_submit(s, &w.op);
	assert_false(w.done);
	server_kill(SIGKILL);
	wait_for(engine, &w);
	assert_int_equal(w.error, -ENOTCONN);
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), -ENOTCONN);
	/* Larger than it was. */
	assert_int_equal(truncate(image, SIZE + MIB), 0);
	server_start(PLAIN);
	assert_int_equal(run_patiently(s, STORE_READ, 4096, in), 0);
	assert_memory_equal(in, out, 4096);
	assert_true(store_engine_measured(engine));
	assert_true(store_measure(s));
	assert_int_equal(s->size, SIZE + MIB);
	/* Everything that was written had been flushed. */
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	store_destroy(s);
	assert_int_equal(truncate(image, SIZE), 0);
}

/* What a server took and was not told to flush may be gone with it: a flush says so, once. */
static void owns_up(void **state)
{
	struct store *s;

	(void)state;
	server_start(PLAIN);
	s = opened();
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 4096, out, 0), 0);
	server_kill(SIGKILL);
	server_start(PLAIN);
	assert_int_equal(run_patiently(s, STORE_READ, 4096, in), 0);
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), -EIO);
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	store_destroy(s);
}

static bool says(const char *file, const char *word)
{
	static char text[65536];
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[max_of(n, (ssize_t)0)] = '\0';
	return strstr(text, word) != NULL;
}

/* A server that cannot flush is followed by one that is to be told to. */
static void flushes_what_comes_to_be_flushed(void **state)
{
	static const char *const cannot[] = {
		"eval",
		"get_size=echo 67108864",
		"pread=dd if=/dev/zero iflag=count_bytes count=$3",
		"pwrite=cat >/dev/null",
		NULL,
	};
	char log[80], logfile[96];
	struct store *s;

	(void)state;
	snprintf(log, sizeof(log), "%s/log", dir);
	snprintf(logfile, sizeof(logfile), "logfile=%s", log);
	server_start(cannot);
	s = opened();
	assert_true(s->volatile_cache); /* hosts ask once */
	assert_int_equal(run(engine, s, STORE_WRITE, 0, 4096, out, 0), 0);
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	server_kill(SIGKILL);
	server_start((const char *const[]){"--filter=log", "file", image, logfile, NULL});
	assert_int_equal(run_patiently(s, STORE_WRITE, 4096, out), 0);
	assert_int_equal(run(engine, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	assert_true(says(log, " Flush "));
	store_destroy(s);
	unlink(log);
}

/* A store is closed while it looks for its server, and with a connection that nobody took. */
static void closes_while_it_seeks(void **state)
{
	struct store *s;
	uint64_t before;

	(void)state;
	server_start(PLAIN);
	s = opened();
	server_kill(SIGKILL);
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), -ENOTCONN);
	before = time_now_ns();
	store_destroy(s);
	assert_true(time_now_ns() - before < 2 * NSEC_PER_SEC);
	server_start(PLAIN);
	s = opened();
	server_kill(SIGKILL);
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), -ENOTCONN);
	server_start(PLAIN);
	sleep(1);
	store_destroy(s);
}

/* --- a name that is not resolved ---------------------------------------------------------------
 */

static atomic_bool resolver_hangs;
static atomic_uint resolving;

/* libnbd's calls come here. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
						       const struct addrinfo *hints,
						       struct addrinfo **ret)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	int error;

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	resolving++;
	while (resolver_hangs)
		usleep(1000);
	error = real(node, service, hints, ret);
	resolving--;
	return error;
}

static void choose_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(a);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	snprintf(port, sizeof(port), "%u", ntohs(a.sin_port));
}

static void until_resolving(unsigned count)
{
	for (int i = 0; i < 5000 && resolving != count; i++)
		usleep(1000);
	assert_int_equal(resolving, count);
}

static void waits_for_no_name_when_it_is_closed(void **state)
{
	char by_path[sizeof(uri)];
	struct store *s;
	uint64_t before;

	(void)state;
	memcpy(by_path, uri, sizeof(uri));
	choose_port();
	snprintf(uri, sizeof(uri), "nbd://127.0.0.1:%s", port);
	server_start(PLAIN);
	s = opened();
	resolver_hangs = true;
	server_kill(SIGKILL);
	assert_int_equal(run(engine, s, STORE_READ, 0, 4096, in, 0), -ENOTCONN);
	until_resolving(1);
	before = time_now_ns();
	store_destroy(s);
	assert_true(time_now_ns() - before < NSEC_PER_SEC);
	resolver_hangs = false;
	until_resolving(0);
	port[0] = '\0';
	memcpy(uri, by_path, sizeof(uri));
}

/* Many at once. */
static void takes_many(void **state)
{
	enum { COUNT = 200 };
	static struct waited w[COUNT];
	static struct iovec iov[COUNT];
	struct store *s;

	(void)state;
	server_start(PLAIN);
	s = opened();
	fill(out, 40 * MIB, 9);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COUNT; i++) {
			uint64_t len = i % 3 ? 4096 : 65536, at = (uint64_t)i * 65536;

			iov[i] = (struct iovec){(round ? in : out) + at, len};
			w[i] = (struct waited){.op = {.opcode = round ? STORE_READ : STORE_WRITE,
						      .offset = at,
						      .len = len,
						      .iov = &iov[i],
						      .iov_count = 1,
						      .done = on_done}};
			store_submit(s, &w[i].op);
		}
		for (int i = 0; i < COUNT; i++) {
			wait_for(engine, &w[i]);
			assert_int_equal(w[i].error, 0);
		}
	}
	for (int i = 0; i < COUNT; i++)
		assert_memory_equal(iov[i].iov_base, out + i * 65536, iov[i].iov_len);
	store_destroy(s);
}

/* One connection carries what several threads want: not every server takes several for one. */
static void serves_who_shares_it(void **state)
{
	struct store_engine *engines[2] = {engine};
	struct waited w = {.op = {.opcode = STORE_WRITE,
				  .offset = 4096,
				  .len = 40 * MIB,
				  .iov = &(struct iovec){out, 40 * MIB},
				  .iov_count = 1,
				  .done = on_done}};
	struct store *s;

	(void)state;
	server_start(PLAIN);
	s = opened();
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &engines[1]), 0);
	assert_int_equal(store_share(s, engines, 2), 0);
	fill(out, 40 * MIB, 3);
	store_submit(store_for(s, 1), &w.op);
	for (uint64_t end = time_now_ns() + 10 * NSEC_PER_SEC; !w.done && time_now_ns() < end;) {
		store_engine_reap(engine);
		store_engine_reap(engines[1]);
	}
	assert_true(w.done);
	assert_int_equal(w.error, 0);
	assert_int_equal(run(engine, s, STORE_READ, 4096, 40 * MIB, in, 0), 0);
	assert_memory_equal(in, out, 40 * MIB);
	store_destroy(s);
	store_engine_destroy(engines[1]);
}

/* --- all -------------------------------------------------------------------------------------- */

static int before_each(void **state)
{
	(void)state;
	return store_engine_create(STORE_ENGINE_AUTO, &engine);
}

static int after_each(void **state)
{
	(void)state;
	server_kill(SIGKILL);
	unlink(path);
	unlink(ready);
	store_engine_destroy(engine);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(holds_what_it_is_given, before_each, after_each),
		cmocka_unit_test_setup_teardown(does_without, before_each, after_each),
		cmocka_unit_test_setup_teardown(tells_errors, before_each, after_each),
		cmocka_unit_test_setup_teardown(says_what_is_wrong, before_each, after_each),
		cmocka_unit_test_setup_teardown(gives_up_who_is_silent, before_each, after_each),
		cmocka_unit_test_setup_teardown(comes_back, before_each, after_each),
		cmocka_unit_test_setup_teardown(owns_up, before_each, after_each),
		cmocka_unit_test_setup_teardown(flushes_what_comes_to_be_flushed, before_each,
						after_each),
		cmocka_unit_test_setup_teardown(closes_while_it_seeks, before_each, after_each),
		cmocka_unit_test_setup_teardown(waits_for_no_name_when_it_is_closed, before_each,
						after_each),
		cmocka_unit_test_setup_teardown(takes_many, before_each, after_each),
		cmocka_unit_test_setup_teardown(serves_who_shares_it, before_each, after_each),
	};
	int failed, fd;

	if (system("nbdkit --version >/dev/null 2>&1") != 0)
		return puts("SKIP: nbdkit is not installed") < 0 ? 1 : 77;
	assert_non_null(mkdtemp(dir));
	snprintf(image, sizeof(image), "%s/image", dir);
	snprintf(path, sizeof(path), "%s/socket", dir);
	snprintf(ready, sizeof(ready), "%s/pid", dir);
	snprintf(uri, sizeof(uri), "nbd+unix:///?socket=%s", path);
	fd = open(image, O_CREAT | O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, SIZE) != 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(image);
	rmdir(dir);
	return failed;
}
