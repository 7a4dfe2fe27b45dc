/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "store/store.h"
#include "store_bed.h"

#define MIB  (1024ull * 1024)
#define SIZE (1024 * 1024)

static char dir[] = "/tmp/weft-store-XXXXXX";
static char path[64];
static uint8_t out[SIZE] __attribute__((aligned(4096))), in[SIZE] __attribute__((aligned(4096)));

static void make_file(size_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

/*
 * One operation whose memory is in pieces, some of no bytes: writing takes them in their order,
 * reading fills each. More than the kernel takes in one call (IOV_MAX), and some not aligned.
 */
static void hold_pieces(struct store_engine *e, struct store *s)
{
	enum { PIECE = 512, PIECES = 1500, LEN = PIECE * PIECES };
	static struct iovec iov[PIECES + 2];
	struct store_op op = {.offset = 512, .len = LEN, .iov = iov};
	uint8_t *mixed = malloc(LEN);

	assert_non_null(mixed);
	fill(out, SIZE, 7);
	/* The last in memory comes first, and the one before it in two unequal parts. */
	for (int i = 0; i < PIECES; i++)
		iov[i] = (struct iovec){out + LEN - (i + 1) * PIECE, PIECE};
	iov[PIECES] = (struct iovec){iov[1].iov_base, 0};
	iov[PIECES + 1] = (struct iovec){NULL, 0};
	for (int i = 0; i < PIECES; i++)
		memcpy(mixed + i * PIECE, iov[i].iov_base, PIECE);
	memmove(&iov[2], &iov[1], PIECES * sizeof(*iov));
	iov[1].iov_len = 100;
	iov[2] = (struct iovec){(uint8_t *)iov[1].iov_base + 100, PIECE - 100};
	op.iov_count = PIECES + 2;
	op.opcode = STORE_WRITE;
	assert_int_equal(run_op(e, s, &op), 0);
	assert_int_equal(run(e, s, STORE_READ, 512, LEN, in, 0), 0);
	assert_memory_equal(in, mixed, LEN);
	memcpy(in, out, SIZE);
	memset(out, 0xee, LEN);
	op.opcode = STORE_READ;
	assert_int_equal(run_op(e, s, &op), 0);
	assert_memory_equal(out, in, SIZE);
	free(mixed);
	/* Two that are aligned for O_DIRECT. */
	iov[0] = (struct iovec){out + 16384, 8192};
	iov[1] = (struct iovec){out, 16384};
	op = (struct store_op){
		.opcode = STORE_WRITE, .offset = 4096, .len = 24576, .iov = iov, .iov_count = 2};
	assert_int_equal(run_op(e, s, &op), 0);
	assert_int_equal(run(e, s, STORE_READ, 4096, 24576, in, 0), 0);
	assert_memory_equal(in, out + 16384, 8192);
	assert_memory_equal(in + 8192, out, 16384);
	memset(out, 0xee, 24576);
	op.opcode = STORE_READ;
	assert_int_equal(run_op(e, s, &op), 0);
	assert_memory_equal(in, out + 16384, 8192);
	assert_memory_equal(in + 8192, out, 16384);
}

/* What every store must do, whatever it is made of. */
static void hold_bytes(struct store_engine *e, struct store *s)
{
	static const uint8_t zeroes[8192];

	fill(out, SIZE, 1);
	memset(in, 0xee, SIZE);
	assert_int_equal(run(e, s, STORE_READ, 4096, 8192, in, 0), 0);
	assert_memory_equal(in, zeroes, 8192); /* fresh */
	hold_pieces(e, s);
	fill(out, SIZE, 1);
	assert_int_equal(run(e, s, STORE_WRITE, 0, SIZE, out, 0), 0);
	assert_int_equal(run(e, s, STORE_READ, 0, SIZE, in, 0), 0);
	assert_memory_equal(in, out, SIZE);
	assert_int_equal(run(e, s, STORE_WRITE, 512, 512, out + 9, STORE_FUA), 0); /* unaligned */
	memmove(out + 512, out + 9, 512);
	assert_int_equal(run(e, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(run(e, s, STORE_ZERO, 1024, 70 * 1024, NULL, STORE_FUA), 0);
	memset(out + 1024, 0, 70 * 1024);
	assert_int_equal(run(e, s, STORE_ZERO, 512 * 1024, 4096, NULL, STORE_UNMAP), 0);
	memset(out + 512 * 1024, 0, 4096);
	if (s->discard_zeroes) {
		assert_int_equal(run(e, s, STORE_DISCARD, 256 * 1024, 128 * 1024, NULL, 0), 0);
		memset(out + 256 * 1024, 0, 128 * 1024);
	}
	assert_int_equal(run(e, s, STORE_READ, 0, SIZE, in, 0), 0);
	assert_memory_equal(in, out, SIZE);
	assert_int_equal(run(e, s, STORE_READ, SIZE, 512, in, 0), -ERANGE);
	assert_int_equal(run(e, s, STORE_WRITE, SIZE - 512, 1024, out, 0), -ERANGE);
	assert_int_equal(run(e, s, STORE_WRITE, UINT64_MAX - 511, 1024, out, 0), -ERANGE);
}

static void memory_holds_bytes(void **state)
{
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	hold_bytes(NULL, s);
	store_destroy(s);
	assert_int_equal(store_mem_create(1000, 512, 0, &s), -EINVAL);
}

static size_t bytes_resident(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY);

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Also those of the store that was written first: what came later lies beside it. */
static void discarded_memory_goes_back_to_the_system(void **state)
{
	enum { TIMES = 32 };
	static const enum store_opcode opcodes[] = {STORE_DISCARD, STORE_ZERO};
	static const uint8_t zeroes[4096];
	struct store *s[2];
	size_t full;

	(void)state;
	fill(out, SIZE, 5);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_mem_create(TIMES * SIZE, 512, 0, &s[i]), 0);
		for (uint64_t at = 0; at < TIMES * SIZE; at += SIZE)
			assert_int_equal(run(NULL, s[i], STORE_WRITE, at, SIZE, out, 0), 0);
	}
	for (int i = 0; i < 2; i++) {
		full = bytes_resident();
		/* All but the first and the last block. */
		assert_int_equal(run(NULL, s[i], opcodes[i], 512, TIMES * SIZE - 1024, NULL,
				     opcodes[i] == STORE_ZERO ? STORE_UNMAP : 0),
				 0);
		assert_true(bytes_resident() + (TIMES - 4) * SIZE < full);
		assert_int_equal(run(NULL, s[i], STORE_READ, 0, SIZE, in, 0), 0);
		assert_memory_equal(in, out, 512);
		assert_memory_equal(in + 512, zeroes, sizeof(zeroes));
		assert_memory_equal(in + SIZE - 4096, zeroes, sizeof(zeroes));
		assert_int_equal(run(NULL, s[i], STORE_WRITE, SIZE, SIZE, out, 0), 0);
		assert_int_equal(run(NULL, s[i], STORE_READ, SIZE, SIZE, in, 0), 0);
		assert_memory_equal(in, out, SIZE);
	}
	for (int i = 0; i < 2; i++)
		store_destroy(s[i]);
}

/* So many bytes of memory are emptied in one go, or some gigabytes looked at of which none are
 * there: who serves hosts besides does not ask for more. */
static void memory_says_what_it_does_in_a_moment(void **state)
{
	const uint64_t size = 1ull << 40, emptied = 4 * MIB, looked = 4096 * MIB;
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(size, 512, 0, &s), 0);
	assert_true(store_moment(s, 0, 512) == 512);
	assert_true(store_moment(s, 4096, size - 4096) == looked - 4096);
	assert_true(store_moment(s, size - MIB, MIB) == MIB);
	fill(out, SIZE, 5);
	for (uint64_t at = 0; at < 2 * emptied; at += SIZE)
		assert_int_equal(run(NULL, s, STORE_WRITE, at, SIZE, out, 0), 0);
	assert_true(store_moment(s, 0, size) == emptied);
	assert_true(store_moment(s, 512, size - 512) == emptied - 512);
	assert_true(store_moment(s, emptied, emptied / 2) == emptied / 2);
	/* Whoever asks may have the size of before. */
	assert_int_equal(store_resize(s, MIB), 0);
	assert_true(store_moment(s, 2 * size, MIB) == MIB);
	store_destroy(s);
}

static void without_memory_a_write_finds_no_space_and_all_else_goes_on(void **state)
{
	struct rlimit old, none;
	struct store *s;
	int error;

	(void)state;
	fill(out, SIZE, 6);
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE / 2, out, 0), 0);
	assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
	none = (struct rlimit){4096, old.rlim_max}; /* 0 is taken for none */
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	error = run(NULL, s, STORE_WRITE, 0, SIZE, out, 0);
	assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
	assert_int_equal(error, -ENOSPC);
	assert_int_equal(run(NULL, s, STORE_READ, 0, SIZE / 2, in, 0), 0);
	assert_memory_equal(in, out, SIZE / 2);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE, out, 0), 0);
	assert_int_equal(run(NULL, s, STORE_READ, 0, SIZE, in, 0), 0);
	assert_memory_equal(in, out, SIZE);
	store_destroy(s);
}

/* What is beyond the end is gone, and is zeroes when it is there again. */
static void memory_gets_another_size(void **state)
{
	const uint64_t less = 3 * 64 * 1024 + 512; /* within a chunk */
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	fill(out, SIZE, 5);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE, out, 0), 0);
	assert_int_equal(store_resize(s, less), 0);
	assert_int_equal(s->size, less);
	assert_int_equal(run(NULL, s, STORE_READ, less, 512, in, 0), -ERANGE);
	assert_int_equal(store_resize(s, SIZE), 0);
	assert_int_equal(run(NULL, s, STORE_READ, 0, SIZE, in, 0), 0);
	assert_memory_equal(in, out, less);
	for (size_t i = less; i < SIZE; i++)
		assert_int_equal(in[i], 0);
	assert_int_equal(store_resize(s, 4 * SIZE), 0);
	assert_int_equal(run(NULL, s, STORE_WRITE, 3 * SIZE, SIZE, out, 0), 0);
	assert_int_equal(run(NULL, s, STORE_READ, 3 * SIZE, SIZE, in, 0), 0);
	assert_memory_equal(in, out, SIZE);
	/* More than there is memory to keep account of: it stays as it is. A sanitizer's heap does
	 * not say so, but ends the program. */
	if (!SANITIZED_HEAP)
		assert_int_equal(store_resize(s, UINT64_MAX >> 1 & ~511ull), -ENOMEM);
	assert_int_equal(s->size, 4 * SIZE);
	assert_int_equal(run(NULL, s, STORE_READ, 3 * SIZE, SIZE, in, 0), 0);
	assert_memory_equal(in, out, SIZE);
	store_destroy(s);
}

static void metadata_stays_with_its_block(void **state)
{
	enum { META = 8, BLOCKS = 4 };
	static const uint8_t zeroes[META * BLOCKS];
	uint8_t meta[META * BLOCKS], got[META * BLOCKS];
	struct iovec iov = {out, BLOCKS * 512};
	struct store_op op = {
		.offset = 3 * 512, .len = BLOCKS * 512, .iov = &iov, .iov_count = 1, .meta = meta};
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, META, &s), 0);
	assert_int_equal(s->meta_size, META);
	fill(meta, sizeof(meta), 3);
	op.opcode = STORE_WRITE;
	assert_int_equal(run_op(NULL, s, &op), 0);
	op.opcode = STORE_READ;
	op.meta = got;
	assert_int_equal(run_op(NULL, s, &op), 0);
	assert_memory_equal(got, meta, sizeof(meta));
	/* Those of the last blocks, and of none before them or behind. */
	op.offset = 5 * 512;
	assert_int_equal(run_op(NULL, s, &op), 0);
	assert_memory_equal(got, meta + 2 * META, 2 * META);
	assert_memory_equal(got + 2 * META, zeroes, 2 * META);
	assert_int_equal(run(NULL, s, STORE_READ, 3 * 512, 512, in, 0), 0); /* who wants none */
	/* Who writes without it, zeroes or discards leaves none. */
	assert_int_equal(run(NULL, s, STORE_WRITE, 3 * 512, 512, out, 0), 0);
	assert_int_equal(run(NULL, s, STORE_ZERO, 4 * 512, 512, NULL, 0), 0);
	assert_int_equal(run(NULL, s, STORE_DISCARD, 6 * 512, 512, NULL, 0), 0);
	op.offset = 3 * 512;
	assert_int_equal(run_op(NULL, s, &op), 0);
	assert_memory_equal(got, zeroes, 2 * META);
	assert_memory_equal(got + 2 * META, meta + 2 * META, META);
	assert_memory_equal(got + 3 * META, zeroes, META);
	store_destroy(s);
}

static void nothing_is_kept_and_nothing_leaks_by_the_null_store(void **state)
{
	static const uint8_t zeroes[8192];
	struct iovec iov[2] = {{in, 4096}, {in + 8192, 4096}};
	struct store_op op = {.opcode = STORE_READ, .len = 8192, .iov = iov, .iov_count = 2};
	struct store *s;

	(void)state;
	assert_int_equal(store_null_create(1000, 512, &s), -EINVAL);
	assert_int_equal(store_null_create(0, 512, &s), -EINVAL);
	assert_int_equal(store_null_create(SIZE, 512, &s), 0);
	assert_int_equal(s->size, SIZE);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, 8192, out, STORE_FUA), 0);
	memset(in, 0xee, 3 * 4096);
	assert_int_equal(run_op(NULL, s, &op), 0);
	assert_memory_equal(in, zeroes, 4096);
	assert_memory_equal(in + 8192, zeroes, 4096);
	assert_int_equal(in[4096], 0xee);
	for (int opcode = STORE_FLUSH; opcode <= STORE_DISCARD; opcode++)
		assert_int_equal(run(NULL, s, (enum store_opcode)opcode, 0, 512, NULL, 0), 0);
	assert_int_equal(run(NULL, s, STORE_READ, SIZE, 512, in, 0), -ERANGE);
	assert_int_equal(run(NULL, s, STORE_DISCARD, SIZE - 512, 1024, NULL, 0), -ERANGE);
	assert_false(store_measure(s));
	store_destroy(s);
}

static void file_holds_bytes(enum store_engine_kind kind, bool direct)
{
	struct store_file_options o = {.block_size = 512, .direct = direct};
	struct store_engine *e;
	struct store *s;
	const char *why;
	int fd;

	make_file(SIZE);
	assert_int_equal(store_engine_create(kind, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	assert_int_equal(s->size, SIZE);
	assert_true(s->volatile_cache);
	hold_bytes(e, s);
	store_destroy(s);
	store_engine_destroy(e);
	fd = open(path, O_RDONLY);
	memset(in, 0, SIZE);
	assert_int_equal(read(fd, in, SIZE), SIZE); /* what other programs see */
	assert_memory_equal(in, out, SIZE);
	close(fd);
}

static void a_file_holds_bytes(void **state)
{
	(void)state;
	file_holds_bytes(STORE_ENGINE_AUTO, false);
}

static void a_file_past_the_page_cache_holds_bytes(void **state)
{
	(void)state;
	file_holds_bytes(STORE_ENGINE_AUTO, true);
}

static void a_file_holds_bytes_without_io_uring(void **state)
{
	(void)state;
	file_holds_bytes(STORE_ENGINE_THREADS, false);
}

static void a_file_that_lies_in_memory_is_read_and_written_at_once(void **state)
{
	static struct iovec iov = {out, SIZE};
	char at[] = "/dev/shm/weft-store-XXXXXX";
	struct store_file_options o = {.block_size = 512};
	struct waited w = {.op = {.offset = 0, .len = SIZE, .iov = &iov, .iov_count = 1}};
	const int fd = mkstemp(at);
	struct store_engine *e;
	struct store *s;
	const char *why;

	(void)state;
	if (fd < 0)
		SKIP_CASE("no file can be made in /dev/shm");
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, at, &o, &s, &why), 0);
	unlink(at);
	w.op.done = on_done;
	for (int i = 0; i < 2; i++) {
		w.op.opcode = i ? STORE_READ : STORE_WRITE;
		w.done = false;
		store_submit(s, &w.op);
		assert_true(w.done); /* no thread, and nothing to wait for */
		assert_int_equal(w.error, 0);
	}
	hold_bytes(e, s);
	store_destroy(s);
	store_engine_destroy(e);
}

static void more_operations_than_the_ring_has_entries_all_finish(void **state)
{
	enum { N = 2000 };
	struct store_file_options o = {.block_size = 512};
	static struct waited w[N];
	static struct iovec iov[N];
	struct store_engine *e;
	struct store *s;
	const char *why;

	(void)state;
	make_file(SIZE);
	fill(out, SIZE, 2);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	for (int i = 0; i < N; i++) {
		iov[i] = (struct iovec){out + i * 512, 512};
		w[i] = (struct waited){.op = {.opcode = STORE_WRITE,
					      .offset = (uint64_t)i * 512,
					      .len = 512,
					      .iov = &iov[i],
					      .iov_count = 1,
					      .done = on_done}};
		store_submit(s, &w[i].op);
	}
	for (int i = 0; i < N; i++) {
		wait_for(e, &w[i]);
		assert_int_equal(w[i].error, 0);
	}
	assert_int_equal(run(e, s, STORE_READ, 0, N * 512, in, 0), 0);
	assert_memory_equal(in, out, N * 512);
	store_destroy(s);
	store_engine_destroy(e);
}

/* --- a store that hears of its bytes by a descriptor of its own ------------------------------- */

struct far_store {
	struct store store;
	struct store_source source;
	struct store_op *op; /* asked for, until its answer comes */
	int there;	     /* the far end of the source's socket */
	unsigned processed;
};

static void far_submit(struct store *s, struct store_op *op)
{
	container_of(s, struct far_store, store)->op = op;
}

static unsigned far_process(struct store_source *src, uint32_t events)
{
	struct far_store *f = container_of(src, struct far_store, source);
	struct store_op *op = f->op;
	char byte;

	f->processed++;
	if (!(events & EPOLLIN))
		return 0;
	assert_int_equal(recv(src->fd, &byte, 1, MSG_DONTWAIT), 1);
	f->op = NULL;
	memset(op->iov->iov_base, byte, op->iov->iov_len);
	op->done(op, 0);
	return 1;
}

static void a_store_may_have_the_engine_attend_a_descriptor_of_its_own(void **state)
{
	static const struct store_ops far_ops = {.name = "far", .submit = far_submit};
	struct far_store f = {.store = {.ops = &far_ops, .size = SIZE, .block_size = 512},
			      .source.process = far_process};
	struct iovec iov = {in, 512};
	struct waited w = {.op = {.len = 512, .iov = &iov, .iov_count = 1, .done = on_done}};
	struct pollfd p = {.events = POLLIN};
	struct store_file_options o = {.block_size = 512};
	struct store_engine *e;
	struct store *file;
	const char *why;
	int ends[2];

	(void)state;
	make_file(SIZE);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	f.source.fd = ends[0];
	f.there = ends[1];
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &file, &why), 0);
	assert_int_equal(store_engine_add_source(e, &f.source, EPOLLIN), 0);
	p.fd = store_engine_fd(e);

	/* Nothing comes: nobody is woken, and nobody is asked. */
	store_submit(&f.store, &w.op);
	assert_int_equal(store_engine_reap(e), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(f.processed, 0);
	/* Another store's work goes on meanwhile. */
	assert_int_equal(run(e, file, STORE_WRITE, 0, 512, out, 0), 0);
	assert_int_equal(f.processed, 0);
	assert_false(w.done);
	/* The answer wakes who waits on the engine, and one round brings it. */
	assert_int_equal(write(f.there, "A", 1), 1);
	assert_int_equal(poll(&p, 1, 10000), 1);
	store_engine_clear(e);
	assert_int_equal(store_engine_reap(e), 1);
	assert_true(w.done);
	assert_int_equal(in[511], 'A');
	assert_int_equal(poll(&p, 1, 0), 0);

	/* What else it looks for, it is told; and what it no longer does, it is not. */
	f.processed = 0;
	store_engine_change_source(e, &f.source, EPOLLOUT);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(store_engine_reap(e), 0);
	assert_int_equal(f.processed, 1);
	store_engine_change_source(e, &f.source, 0);
	assert_int_equal(write(f.there, "B", 1), 1);
	assert_int_equal(store_engine_reap(e), 0);
	assert_int_equal(f.processed, 1);
	store_engine_change_source(e, &f.source, EPOLLIN);
	store_engine_remove_source(e, &f.source);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(store_engine_reap(e), 0);
	assert_int_equal(f.processed, 1);
	close(ends[0]);
	close(ends[1]);
	store_destroy(file);
	store_engine_destroy(e);
}

/* A disk of 4096-byte sectors in the file; -1 where that cannot be had. Gone when it is closed. */
static int make_disk(char *device, size_t room)
{
	struct loop_config config = {.block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
	int control = open("/dev/loop-control", O_RDWR), disk = -1;

	config.fd = (uint32_t)open(path, O_RDWR);
	for (int tries = 0; control >= 0 && disk < 0 && tries < 20; tries++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		snprintf(device, room, "/dev/loop%d", n);
		disk = n < 0 ? -1 : open(device, O_RDWR | O_CLOEXEC);
		/* Another one may have been quicker. */
		if (disk >= 0 && ioctl(disk, LOOP_CONFIGURE, &config) != 0) {
			close(disk);
			disk = -1;
		}
	}
	close((int)config.fd);
	if (control >= 0)
		close(control);
	return disk;
}

static void a_disk_of_large_sectors_takes_small_blocks(void **state)
{
	struct store_file_options o = {.block_size = 512};
	struct store_engine *e;
	char device[32];
	struct store *s;
	const char *why;
	int disk;

	(void)state;
	make_file(SIZE);
	disk = make_disk(device, sizeof(device));
	if (disk < 0)
		SKIP_CASE("no loop device to have here");
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, device, &o, &s, &why), 0);
	close(disk);
	hold_bytes(e, s);
	/* The sectors that are wholly within are given back, the others keep what they hold. */
	assert_int_equal(run(e, s, STORE_DISCARD, 8192 + 512, 4096, NULL, 0), 0);
	assert_int_equal(run(e, s, STORE_DISCARD, 16384 - 512, 4096 + 1024, NULL, 0), 0);
	assert_int_equal(run(e, s, STORE_READ, 0, SIZE, in, 0), 0);
	assert_memory_equal(in, out, 16384);
	assert_memory_equal(in + 20480, out + 20480, SIZE - 20480);
	store_destroy(s);
	store_engine_destroy(e);
}

static void a_read_only_store_is_not_written(void **state)
{
	struct store_file_options o = {.block_size = 512, .read_only = true};
	struct store_engine *e;
	struct store *s;
	const char *why;

	(void)state;
	make_file(SIZE);
	chmod(path, 0400);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	assert_int_equal(run(e, s, STORE_WRITE, 0, 512, out, 0), -EROFS);
	assert_int_equal(run(e, s, STORE_ZERO, 0, 512, NULL, 0), -EROFS);
	assert_int_equal(run(e, s, STORE_DISCARD, 0, 512, NULL, 0), -EROFS);
	assert_int_equal(run(e, s, STORE_READ, 0, 512, in, 0), 0);
	store_destroy(s);
	store_engine_destroy(e);
}

static void a_file_cut_behind_our_back_is_an_error_not_stale_memory(void **state)
{
	struct store_file_options o = {.block_size = 512};
	struct store_engine *e;
	struct store *s;
	const char *why;

	(void)state;
	for (int kind = STORE_ENGINE_AUTO; kind <= STORE_ENGINE_THREADS; kind++) {
		make_file(SIZE);
		assert_int_equal(store_engine_create((enum store_engine_kind)kind, &e), 0);
		assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
		assert_int_equal(truncate(path, 4096), 0);
		assert_int_equal(run(e, s, STORE_READ, 0, 8192, in, 0), -EIO);
		store_destroy(s);
		store_engine_destroy(e);
	}
}

static void a_file_that_grew_or_shrank_is_measured_in_whole_blocks(void **state)
{
	struct store_file_options o = {.block_size = 4096};
	struct store_engine *e;
	struct store *s;
	const char *why;

	(void)state;
	make_file(SIZE);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	assert_false(store_measure(s));
	assert_int_equal(truncate(path, 2 * SIZE + 4095), 0);
	assert_int_equal(run(e, s, STORE_READ, SIZE, 4096, in, 0), -ERANGE);
	assert_true(store_measure(s));
	assert_int_equal(s->size, 2 * SIZE);
	assert_false(store_measure(s));
	assert_int_equal(run(e, s, STORE_WRITE, 2 * SIZE - 4096, 4096, out, 0), 0);
	assert_int_equal(truncate(path, 0), 0);
	assert_true(store_measure(s));
	assert_int_equal(s->size, 0);
	assert_int_equal(run(e, s, STORE_READ, 0, 4096, in, 0), -ERANGE);
	store_destroy(s);
	store_engine_destroy(e);
}

static void a_disk_that_grew_is_measured(void **state)
{
	struct store_file_options o = {.block_size = 512};
	struct store_engine *e;
	char device[32];
	struct store *s;
	const char *why;
	int disk;

	(void)state;
	make_file(SIZE);
	disk = make_disk(device, sizeof(device));
	if (disk < 0)
		SKIP_CASE("no loop device to have here");
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, device, &o, &s, &why), 0);
	assert_int_equal(truncate(path, 2 * SIZE), 0);
	assert_int_equal(ioctl(disk, LOOP_SET_CAPACITY), 0);
	assert_true(store_measure(s));
	assert_int_equal(s->size, 2 * SIZE);
	close(disk);
	store_destroy(s);
	store_engine_destroy(e);
}

static void what_cannot_be_served_is_refused_with_a_reason(void **state)
{
	struct store_file_options o = {.block_size = 512}, o4k = {.block_size = 4096};
	struct store_engine *e;
	struct store *s, *second;
	const char *why = NULL;

	(void)state;
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	assert_int_equal(store_file_open(e, "/nonexistent/x", &o, &s, &why), -ENOENT);
	assert_non_null(strstr(why, "no such file"));
	assert_int_equal(store_file_open(e, dir, &o, &s, &why), -EISDIR);
	assert_non_null(strstr(why, "directory"));
	assert_int_equal(store_file_open(e, "/dev/null", &o, &s, &why), -EINVAL);
	assert_non_null(strstr(why, "neither"));
	make_file(0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), -EINVAL);
	assert_non_null(strstr(why, "empty"));
	make_file(1000);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), -EINVAL);
	assert_non_null(strstr(why, "multiple of 512"));
	make_file(4096 + 512);
	assert_int_equal(store_file_open(e, path, &o4k, &s, &why), -EINVAL);
	assert_non_null(strstr(why, "multiple of 4096"));
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	assert_int_equal(store_file_open(e, path, &o, &second, &why), -EBUSY);
	assert_non_null(strstr(why, "in use"));
	store_destroy(s);
	store_engine_destroy(e);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/disk.img", dir);
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_holds_bytes),
		cmocka_unit_test(discarded_memory_goes_back_to_the_system),
		cmocka_unit_test(memory_says_what_it_does_in_a_moment),
		cmocka_unit_test(without_memory_a_write_finds_no_space_and_all_else_goes_on),
		cmocka_unit_test(memory_gets_another_size),
		cmocka_unit_test(metadata_stays_with_its_block),
		cmocka_unit_test(nothing_is_kept_and_nothing_leaks_by_the_null_store),
		cmocka_unit_test(a_store_may_have_the_engine_attend_a_descriptor_of_its_own),
		cmocka_unit_test_teardown(a_file_holds_bytes, remove_file),
		cmocka_unit_test_teardown(a_file_past_the_page_cache_holds_bytes, remove_file),
		cmocka_unit_test_teardown(a_file_holds_bytes_without_io_uring, remove_file),
		cmocka_unit_test(a_file_that_lies_in_memory_is_read_and_written_at_once),
		cmocka_unit_test_teardown(more_operations_than_the_ring_has_entries_all_finish,
					  remove_file),
		cmocka_unit_test_teardown(a_disk_of_large_sectors_takes_small_blocks, remove_file),
		cmocka_unit_test_teardown(a_read_only_store_is_not_written, remove_file),
		cmocka_unit_test_teardown(a_file_cut_behind_our_back_is_an_error_not_stale_memory,
					  remove_file),
		cmocka_unit_test_teardown(a_file_that_grew_or_shrank_is_measured_in_whole_blocks,
					  remove_file),
		cmocka_unit_test_teardown(a_disk_that_grew_is_measured, remove_file),
		cmocka_unit_test_teardown(what_cannot_be_served_is_refused_with_a_reason,
					  remove_file),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
