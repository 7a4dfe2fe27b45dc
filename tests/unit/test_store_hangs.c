/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Stores on disks that hang: the calls below do so for the file at hung_path. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/time.h"
#include "store/store.h"

#define SIZE (1024 * 1024)

static char dir[] = "/tmp/weft-hangs-XXXXXX";
static char hung_path[64], good_path[64];
static _Atomic ino_t hung_inode;
static atomic_bool hangs, transfers_hang; /* all that it is asked for; only these, of any file */

/* --- the calls -------------------------------------------------------------------------------- */

static bool is_hung_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == hung_inode;
}

static void maybe_hang(int fd)
{
	while (hangs && is_hung_file(fd))
		usleep(1000);
}

typedef ssize_t transfer(int fd, const struct iovec *iov, int count, off_t at, int flags);
transfer __real_preadv64v2, __wrap_preadv64v2, __real_pwritev64v2, __wrap_pwritev64v2;
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *sx);
int __wrap_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *sx);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

static atomic_int readers, writers, most_writers;

static void maybe_hold(void)
{
	while (transfers_hang)
		usleep(1000);
}

/* As on FUSE and NFS, nobody can say whether the hung file's would wait. */
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	if (flags & RWF_NOWAIT && is_hung_file(fd)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	readers++;
	maybe_hang(fd);
	maybe_hold();
	readers--;
	return __real_preadv64v2(fd, iov, count, at, flags);
}

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	int n = ++writers;
	ssize_t written;

	if (n > most_writers)
		most_writers = n;
	usleep(100);
	maybe_hang(fd);
	maybe_hold();
	written = __real_pwritev64v2(fd, iov, count, at, flags);
	writers--;
	return written;
}

int __wrap_fdatasync(int fd)
{
	maybe_hang(fd);
	return __real_fdatasync(fd);
}

/* The size that was heard of the hung file last, until its server is asked. */
static atomic_ullong heard;

int __wrap_statx(int fd, const char *path, int flags, unsigned int mask, struct statx *sx)
{
	int error;

	if (!(flags & AT_STATX_DONT_SYNC))
		maybe_hang(fd);
	error = __real_statx(fd, path, flags, mask, sx);
	if (error || !is_hung_file(fd))
		return error;
	if (flags & AT_STATX_DONT_SYNC)
		sx->stx_size = heard;
	else
		heard = sx->stx_size;
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);

/* As FUSE's does, where the server wants to know. */
int __wrap_close(int fd)
{
	maybe_hang(fd);
	return __real_close(fd);
}

static int refusals, refusal = -EAGAIN;

int __wrap_io_uring_submit(struct io_uring *ring)
{
	return refusals-- > 0 ? refusal : __real_io_uring_submit(ring);
}

/* --- operations ------------------------------------------------------------------------------- */

struct waited {
	struct store_op op;
	bool done;
	int error;
};

static uint8_t bytes[SIZE];
static const struct iovec block = {bytes, 4096};

static void on_done(struct store_op *op, int error)
{
	struct waited *w = container_of(op, struct waited, op);

	assert_false(w->done); /* once */
	w->done = true;
	w->error = error;
}

static void start_at(struct store *s, struct waited *w, enum store_opcode opcode, uint64_t offset)
{
	*w = (struct waited){.op = {.opcode = opcode,
				    .offset = offset,
				    .len = block.iov_len,
				    .iov = &block,
				    .iov_count = 1,
				    .done = on_done}};
	store_submit(s, &w->op);
}

static void start(struct store *s, struct waited *w, enum store_opcode opcode)
{
	start_at(s, w, opcode, 0);
}

static void look(struct store_engine *e, int ms)
{
	struct pollfd p = {.fd = store_engine_fd(e), .events = POLLIN};

	store_engine_submit(e);
	(void)poll(&p, 1, ms);
	store_engine_clear(e);
	store_engine_reap(e);
}

static void finish(struct store_engine *e, struct waited *w)
{
	for (int i = 0; i < 500 && !w->done; i++)
		look(e, 10);
	assert_true(w->done);
	assert_int_equal(w->error, 0);
}

struct bed {
	struct store_engine *e;
	struct store *hung, *good;
};

static void make_file(const char *path)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
}

/* It is the kernel that is asked, not who may have fallen back by mistake. */
static bool there_is_io_uring(void)
{
	struct io_uring ring;

	if (io_uring_queue_init(4, &ring, 0) != 0)
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

static void set_up_bed(struct bed *b, enum store_engine_kind kind)
{
	struct store_file_options o = {.block_size = 4096};
	struct stat st;
	const char *why;

	make_file(hung_path);
	make_file(good_path);
	assert_int_equal(stat(hung_path, &st), 0);
	hung_inode = st.st_ino;
	heard = SIZE;
	assert_int_equal(store_engine_create(kind, &b->e), 0);
	if (kind == STORE_ENGINE_AUTO)
		assert_string_equal(store_engine_name(b->e),
				    there_is_io_uring() ? "io_uring" : "threads");
	assert_int_equal(store_file_open(b->e, hung_path, &o, &b->hung, &why), 0);
	assert_int_equal(store_file_open(b->e, good_path, &o, &b->good, &why), 0);
}

static void tear_down_bed(struct bed *b)
{
	store_destroy(b->hung);
	store_destroy(b->good);
	store_engine_destroy(b->e);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_store_that_hangs_holds_up_no_other(enum store_engine_kind kind)
{
	enum { EACH = 128 };
	static const enum store_opcode opcodes[] = {STORE_READ, STORE_WRITE, STORE_FLUSH,
						    STORE_ZERO, STORE_DISCARD};
	static struct waited hung[EACH * 3];
	struct waited w;
	struct bed b;

	set_up_bed(&b, kind);
	hangs = true;
	for (int i = 0; i < EACH * 3; i++)
		start(b.hung, &hung[i], opcodes[i % 3]);
	look(b.e, 20);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		start(b.good, &w, opcodes[i]);
		finish(b.e, &w);
	}
	for (int i = 0; i < EACH * 3; i++)
		assert_false(hung[i].done);
	/* What no thread has begun can be taken back, once; what hangs cannot. */
	for (int i = EACH * 3 - 3; i < EACH * 3; i++) {
		assert_true(store_cancel(b.hung, &hung[i].op));
		assert_false(store_cancel(b.hung, &hung[i].op));
	}
	assert_false(store_cancel(b.hung, &hung[0].op));
	hangs = false;
	for (int i = 0; i < EACH * 3 - 3; i++)
		finish(b.e, &hung[i]);
	look(b.e, 20);
	for (int i = EACH * 3 - 3; i < EACH * 3; i++)
		assert_false(hung[i].done);
	tear_down_bed(&b);
}

static void with_io_uring_a_store_that_hangs_holds_up_no_other(void **state)
{
	(void)state;
	a_store_that_hangs_holds_up_no_other(STORE_ENGINE_AUTO);
}

static void with_threads_a_store_that_hangs_holds_up_no_other(void **state)
{
	(void)state;
	a_store_that_hangs_holds_up_no_other(STORE_ENGINE_THREADS);
}

/* They are shared by all files of a task: see engine.c. */
static void io_uring_has_no_threads_of_its_own(void **state)
{
	struct dirent *entry;
	struct waited w;
	struct bed b;
	DIR *tasks;

	(void)state;
	set_up_bed(&b, STORE_ENGINE_AUTO);
	if (!there_is_io_uring())
		SKIP_CASE("no io_uring here");
	for (int opcode = STORE_READ; opcode <= STORE_DISCARD; opcode++) {
		start(b.good, &w, (enum store_opcode)opcode);
		finish(b.e, &w);
		start(b.hung, &w, (enum store_opcode)opcode);
		finish(b.e, &w);
	}
	tasks = opendir("/proc/self/task");
	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		assert_true(fgets(name, sizeof(name), f) || ferror(f));
		fclose(f);
		assert_null(strstr(name, "iou-wrk"));
	}
	closedir(tasks);
	tear_down_bed(&b);
}

static void what_io_uring_did_not_take_it_is_given_again(void **state)
{
	struct pollfd p = {.events = POLLIN};
	struct waited w;
	struct bed b;

	(void)state;
	set_up_bed(&b, STORE_ENGINE_AUTO);
	if (!there_is_io_uring())
		SKIP_CASE("no io_uring here");
	refusals = 3;
	start(b.good, &w, STORE_READ);
	store_engine_submit(b.e);
	p.fd = store_engine_fd(b.e);
	while (!w.done) { /* asleep until something happens, as weft serve */
		assert_int_equal(poll(&p, 1, 10000), 1);
		store_engine_clear(b.e);
		store_engine_reap(b.e);
	}
	assert_true(refusals < 0);
	tear_down_bed(&b);
}

/* More than the ring has room for, in flight when it happens and asked for later. */
static void threads_do_what_io_uring_refuses(int error)
{
	static struct waited w[600], before;
	struct bed b;

	set_up_bed(&b, STORE_ENGINE_AUTO);
	if (!there_is_io_uring())
		SKIP_CASE("no io_uring here");
	refusals = 0;
	start(b.good, &before, STORE_READ);
	store_engine_submit(b.e);
	refusals = INT_MAX;
	refusal = error;
	for (size_t i = 0; i < ARRAY_SIZE(w) - 1; i++)
		start(b.good, &w[i], i % 2 ? STORE_WRITE : STORE_READ);
	while (!before.done)
		look(b.e, 10);
	for (size_t i = 0; i < ARRAY_SIZE(w) - 1; i++)
		for (int turns = 0; !w[i].done; turns++) {
			assert_true(turns < 10000000);
			look(b.e, 10);
		}
	/* Only its threads are asked from here on. */
	refusals = 1;
	start(b.good, &w[ARRAY_SIZE(w) - 1], STORE_READ);
	finish(b.e, &w[ARRAY_SIZE(w) - 1]);
	assert_int_equal(refusals, 1);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		assert_int_equal(w[i].error, 0);
	tear_down_bed(&b);
	refusals = 0;
	refusal = -EAGAIN;
}

static void threads_do_what_io_uring_refuses_for_good(void **state)
{
	(void)state;
	threads_do_what_io_uring_refuses(-EPERM);
}

static void threads_do_what_io_uring_never_has_room_for(void **state)
{
	(void)state;
	threads_do_what_io_uring_refuses(-EAGAIN);
}

static void writes_through_the_page_cache_take_turns(void **state)
{
	static struct waited w[64];
	struct bed b;

	(void)state;
	set_up_bed(&b, STORE_ENGINE_THREADS);
	most_writers = 0;
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		start(b.good, &w[i], i % 2 ? STORE_WRITE : STORE_READ);
	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		finish(b.e, &w[i]);
	assert_int_equal(most_writers, 1);
	tear_down_bed(&b);
}

/* --- of a file that two threads share: who begins and who waits ------------------------------- */

struct shared_bed {
	struct bed b;
	struct store_engine *other;
	struct store *mine, *theirs;
};

static void set_up_shared(struct shared_bed *s)
{
	set_up_bed(&s->b, STORE_ENGINE_THREADS);
	assert_int_equal(store_engine_create(STORE_ENGINE_THREADS, &s->other), 0);
	assert_int_equal(store_share(s->b.good, (struct store_engine *[]){s->b.e, s->other}, 2), 0);
	s->mine = store_for(s->b.good, 0);
	s->theirs = store_for(s->b.good, 1);
	transfers_hang = true;
}

static void tear_down_shared(struct shared_bed *s)
{
	tear_down_bed(&s->b);
	store_engine_destroy(s->other);
}

static void expect(const atomic_int *count, int want)
{
	for (int i = 0; i < 5000 && *count != want; i++)
		usleep(1000);
	usleep(5000); /* nor more */
	assert_int_equal(*count, want);
}

static void whoever_reads_what_another_thread_writes_waits(void **state)
{
	struct waited write, read, beside, forgotten;
	struct shared_bed s;

	(void)state;
	set_up_shared(&s);
	start(s.mine, &write, STORE_WRITE);
	expect(&writers, 1);
	start(s.theirs, &read, STORE_READ);
	start(s.theirs, &forgotten, STORE_READ);
	start_at(s.theirs, &beside, STORE_READ, block.iov_len);
	expect(&readers, 1);
	assert_true(store_cancel(s.theirs, &forgotten.op));
	assert_false(store_cancel(s.theirs, &forgotten.op));
	transfers_hang = false;
	finish(s.other, &beside);
	finish(s.b.e, &write);
	finish(s.other, &read);
	assert_false(forgotten.done);
	tear_down_shared(&s);
}

static void whoever_writes_what_another_thread_reads_waits(void **state)
{
	struct waited read[2], write, later;
	struct shared_bed s;

	(void)state;
	set_up_shared(&s);
	start(s.mine, &read[0], STORE_READ);
	start(s.theirs, &read[1], STORE_READ); /* who reads, too, does not */
	expect(&readers, 2);
	start(s.theirs, &write, STORE_WRITE);
	start(s.mine, &later, STORE_READ); /* it does not push in */
	expect(&writers, 0);
	expect(&readers, 2);
	transfers_hang = false;
	finish(s.b.e, &read[0]);
	finish(s.other, &read[1]);
	finish(s.other, &write);
	finish(s.b.e, &later);
	tear_down_shared(&s);
}

/* What a writer that is forgotten held up goes on: of the same block, and of those it had. */
static void whoever_waits_for_one_that_is_forgotten_goes_on(void **state)
{
	static const struct iovec both = {bytes, 8192};
	struct waited read, write, first, second;
	struct shared_bed s;

	(void)state;
	set_up_shared(&s);
	start_at(s.mine, &read, STORE_READ, 4096);
	expect(&readers, 1);
	write = (struct waited){.op = {.opcode = STORE_WRITE,
				       .len = both.iov_len,
				       .iov = &both,
				       .iov_count = 1,
				       .done = on_done}};
	store_submit(s.theirs, &write.op);
	start_at(s.mine, &first, STORE_READ, 0);
	start_at(s.mine, &second, STORE_READ, 4096);
	look(s.b.e, 20);
	expect(&readers, 1);
	assert_true(store_cancel(s.theirs, &write.op));
	look(s.b.e, 20);
	expect(&readers, 3);
	transfers_hang = false;
	finish(s.b.e, &read);
	finish(s.b.e, &first);
	finish(s.b.e, &second);
	assert_false(write.done);
	tear_down_shared(&s);
}

/* --- sizes ------------------------------------------------------------------------------------ */

static void who_looks_for_a_size_does_not_wait_for_a_server(void **state)
{
	struct bed b;

	(void)state;
	set_up_bed(&b, STORE_ENGINE_AUTO);
	hangs = true;
	assert_int_equal(truncate(hung_path, 2 * SIZE), 0);
	for (int i = 0; i < 20; i++)
		assert_false(store_measure(b.hung));
	look(b.e, 20);
	assert_false(store_engine_measured(b.e));
	hangs = false;
	for (int i = 0; i < 500 && heard == SIZE; i++)
		look(b.e, 10);
	look(b.e, 10);
	assert_true(store_engine_measured(b.e));
	assert_false(store_engine_measured(b.e));
	assert_true(store_measure(b.hung));
	assert_int_equal(b.hung->size, 2 * SIZE);
	/* It has asked again, and goes before the answer. */
	tear_down_bed(&b);
}

static const struct store_file_options how = {.block_size = 4096};

/* By another than who has it, it cannot be. */
static bool can_be_opened(struct store_engine *e, const char *path)
{
	struct store *s;
	const char *why;

	if (store_file_open(e, path, &how, &s, &why) != 0)
		return false;
	store_destroy(s);
	return true;
}

static bool can_be_opened_soon(struct store_engine *e, const char *path)
{
	for (int i = 0; i < 5000; i++) {
		if (can_be_opened(e, path))
			return true;
		usleep(1000);
	}
	return false;
}

static uint64_t seconds_to_destroy(struct store *s)
{
	uint64_t begun = time_now_ns();

	store_destroy(s);
	return (time_now_ns() - begun) / NSEC_PER_SEC;
}

static void who_does_not_tell_its_size_is_left_behind(void **state)
{
	struct waited w;
	struct bed b;

	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		set_up_bed(&b, STORE_ENGINE_AUTO);
		hangs = true;
		if (asked)
			assert_false(store_measure(b.hung));
		look(b.e, 20);
		assert_int_equal(seconds_to_destroy(b.hung), 0);
		start(b.good, &w, STORE_READ);
		finish(b.e, &w);
		store_destroy(b.good);
		store_engine_destroy(b.e);
		hangs = false;
		/* It lets go of what it has, the lock of the file above all. */
		assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &b.e), 0);
		assert_true(can_be_opened_soon(b.e, hung_path));
		store_engine_destroy(b.e);
	}
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(hung_path, sizeof(hung_path), "%s/hung.img", dir);
	snprintf(good_path, sizeof(good_path), "%s/good.img", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(hung_path);
	unlink(good_path);
	return rmdir(dir);
}

/* --- ahead ------------------------------------------------------------------------------------ */

static struct store_ahead *look_ahead_at(const char *a, const char *b)
{
	const struct store_wanted wanted[] = {{a, false}, {b, false}};
	struct store_ahead *ahead;

	assert_int_equal(store_ahead_begin(wanted, 2, &how, &ahead), 0);
	assert_true(store_ahead_is_for(ahead, wanted, 2));
	assert_false(store_ahead_is_for(ahead, wanted, 1));
	return ahead;
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static void set_up_files(struct store_engine **ret)
{
	struct stat st;

	make_file(hung_path);
	make_file(good_path);
	assert_int_equal(stat(hung_path, &st), 0);
	hung_inode = st.st_ino;
	heard = SIZE;
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, ret), 0);
}

static void threads_wait_for_what_is_to_be_opened(void **state)
{
	struct store_file_options o = how;
	const char *paths[] = {hung_path, good_path}, *why;
	struct store_engine *e;
	struct store *s[2];
	struct waited w;

	(void)state;
	set_up_files(&e);
	hangs = true;
	o.ahead = look_ahead_at(hung_path, good_path);
	assert_false(is_readable(store_ahead_fd(o.ahead), 50));
	assert_false(store_ahead_done(o.ahead));
	hangs = false;
	assert_true(is_readable(store_ahead_fd(o.ahead), 5000));
	assert_true(store_ahead_done(o.ahead));
	assert_false(can_be_opened(e, good_path)); /* as it is open */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open(e, paths[i], &o, &s[i], &why), 0);
		start(s[i], &w, STORE_READ);
		finish(e, &w);
	}
	/* Each is there once. */
	assert_int_equal(store_open(e, good_path, &o, &s[1], &why), -EBUSY);
	store_ahead_end(o.ahead);
	store_destroy(s[0]);
	store_destroy(s[1]);
	assert_true(can_be_opened(e, hung_path));
	store_engine_destroy(e);
}

static void nobody_waits_for_a_thread_that_hangs(void **state)
{
	struct store_ahead *ahead;
	struct store_engine *e;
	time_t begun;

	(void)state;
	set_up_files(&e);
	hangs = true;
	ahead = look_ahead_at(hung_path, good_path);
	usleep(20000);
	begun = time(NULL);
	store_ahead_end(ahead);
	assert_true(time(NULL) - begun < 5);
	hangs = false;
	assert_true(can_be_opened_soon(e, good_path)); /* what nobody took is closed */
	assert_true(can_be_opened_soon(e, hung_path));
	store_engine_destroy(e);
}

static void what_is_not_there_is_told_as_it_would_be(void **state)
{
	struct store_file_options o = how;
	struct store_engine *e;
	char now[256], none[80];
	const char *why;
	struct store *s;

	(void)state;
	set_up_files(&e);
	snprintf(none, sizeof(none), "%s/none", dir);
	assert_int_equal(store_open(e, none, &o, &s, &why), -ENOENT);
	snprintf(now, sizeof(now), "%s", why);
	o.ahead = look_ahead_at(none, good_path);
	assert_true(is_readable(store_ahead_fd(o.ahead), 5000));
	make_file(none);
	assert_int_equal(store_open(e, none, &o, &s, &why), -ENOENT); /* then it was not */
	assert_string_equal(why, now);
	unlink(none);
	/* Of another kind it is looked at anew. */
	store_ahead_end(o.ahead);
	o.ahead = look_ahead_at(hung_path, hung_path);
	assert_true(is_readable(store_ahead_fd(o.ahead), 5000));
	o.block_size = 512;
	assert_int_equal(store_open(e, good_path, &o, &s, &why), 0);
	store_destroy(s);
	store_ahead_end(o.ahead);
	store_engine_destroy(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_io_uring_a_store_that_hangs_holds_up_no_other),
		cmocka_unit_test(with_threads_a_store_that_hangs_holds_up_no_other),
		cmocka_unit_test(io_uring_has_no_threads_of_its_own),
		cmocka_unit_test(what_io_uring_did_not_take_it_is_given_again),
		cmocka_unit_test(threads_do_what_io_uring_refuses_for_good),
		cmocka_unit_test(threads_do_what_io_uring_never_has_room_for),
		cmocka_unit_test(writes_through_the_page_cache_take_turns),
		cmocka_unit_test(whoever_reads_what_another_thread_writes_waits),
		cmocka_unit_test(whoever_writes_what_another_thread_reads_waits),
		cmocka_unit_test(whoever_waits_for_one_that_is_forgotten_goes_on),
		cmocka_unit_test(who_looks_for_a_size_does_not_wait_for_a_server),
		cmocka_unit_test(who_does_not_tell_its_size_is_left_behind),
		cmocka_unit_test(threads_wait_for_what_is_to_be_opened),
		cmocka_unit_test(nobody_waits_for_a_thread_that_hangs),
		cmocka_unit_test(what_is_not_there_is_told_as_it_would_be),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
