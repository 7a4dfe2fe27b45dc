/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that a store lends: what is read stays as it was, what is filled becomes the store's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/pieces.h"
#include "store_bed.h"
#include "store/sparse.h"

#define CHUNK SPARSE_CHUNK
#define SIZE  (8 * CHUNK)

static uint8_t before[SIZE], after[SIZE], in[SIZE], room[SIZE];

/* Written all over. */
static struct store *make(void)
{
	struct store *s;

	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	fill(before, SIZE, 1);
	fill(after, SIZE, 5000);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE, before, 0), 0);
	return s;
}

static struct store_loan *lend(struct store *s, enum store_opcode opcode, uint64_t offset,
			       uint64_t len)
{
	return store_lend(s, &(struct store_op){.opcode = opcode, .offset = offset, .len = len},
			  room);
}

static void fill_loan(const struct store_loan *l, const uint8_t *with, size_t len)
{
	pieces_write(pieces_from(l->iov, 0), with, len);
}

static int submit_loan(struct store *s, struct store_loan *l, uint64_t offset, uint64_t len)
{
	return run_op(NULL, s,
		      &(struct store_op){.opcode = STORE_WRITE,
					 .offset = offset,
					 .len = len,
					 .iov = l->iov,
					 .iov_count = l->count,
					 .loan = l});
}

static void expect(struct store *s, uint64_t offset, const uint8_t *want, uint64_t len)
{
	assert_int_equal(run(NULL, s, STORE_READ, offset, len, in, 0), 0);
	assert_memory_equal(in, want, len);
}

static void expect_loan(const struct store_loan *l, const uint8_t *want, size_t len)
{
	pieces_read(pieces_from(l->iov, 0), in, len);
	assert_memory_equal(in, want, len);
}

/* --- reads ------------------------------------------------------------------------------------ */

#define AT  (CHUNK / 2)
#define LEN (3 * CHUNK)

static void write_part(struct store *s)
{
	assert_int_equal(run(NULL, s, STORE_WRITE, AT + 512, 4096, after, 0), 0);
}

static void write_all(struct store *s)
{
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE, after, 0), 0);
}

static void write_lent(struct store *s)
{
	struct store_loan *l = lend(s, STORE_WRITE, 0, SIZE);

	assert_non_null(l);
	fill_loan(l, after, SIZE);
	assert_int_equal(submit_loan(s, l, 0, SIZE), 0);
	l->end(l);
}

static void zero_part(struct store *s)
{
	assert_int_equal(run(NULL, s, STORE_ZERO, AT, CHUNK, NULL, 0), 0);
}

static void discard_all(struct store *s)
{
	assert_int_equal(run(NULL, s, STORE_DISCARD, 0, SIZE, NULL, 0), 0);
}

static void cut(struct store *s)
{
	assert_int_equal(store_resize(s, AT + 512), 0);
}

static void destroy(struct store *s)
{
	store_destroy(s);
}

static void what_is_lent_stays_as_it_was(void **state)
{
	static void (*const changes[])(struct store *) = {
		write_part, write_all, write_lent, zero_part, discard_all, cut, destroy};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct store *s = make();
		struct store_loan *l = lend(s, STORE_READ, AT, LEN);

		assert_non_null(l);
		expect_loan(l, before + AT, LEN);
		changes[i](s);
		expect_loan(l, before + AT, LEN);
		l->end(l);
		if (changes[i] != destroy)
			store_destroy(s);
	}
}

/* The copy that a change is made in is the store's; what was lent is not. */
static void what_is_written_meanwhile_is_there_for_others(void **state)
{
	struct store *s = make();
	struct store_loan *l[2];

	(void)state;
	l[0] = lend(s, STORE_READ, 0, SIZE);
	assert_int_equal(run(NULL, s, STORE_WRITE, CHUNK + 512, 1024, after, 0), 0);
	l[1] = lend(s, STORE_READ, 0, SIZE);
	assert_int_equal(run(NULL, s, STORE_ZERO, CHUNK + 512, 512, NULL, 0), 0);
	expect_loan(l[0], before, SIZE);
	memcpy(before + CHUNK + 512, after, 1024);
	expect_loan(l[1], before, SIZE);
	memset(before + CHUNK + 512, 0, 512);
	expect(s, 0, before, SIZE);
	l[0]->end(l[0]);
	l[1]->end(l[1]);
	expect(s, 0, before, SIZE);
	store_destroy(s);
}

static void zeroes_are_lent_where_nothing_was_written(void **state)
{
	struct store_loan *l;
	struct store *s;

	(void)state;
	memset(before, 0, SIZE);
	fill(after, SIZE, 5000);
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	assert_int_equal(run(NULL, s, STORE_WRITE, 2 * CHUNK, 512, after, 0), 0);
	memcpy(before + 2 * CHUNK, after, 512);
	l = lend(s, STORE_READ, 512, SIZE - 512);
	assert_non_null(l);
	assert_int_equal(run(NULL, s, STORE_WRITE, 0, SIZE, after, 0), 0);
	expect_loan(l, before + 512, SIZE - 512);
	l->end(l);
	store_destroy(s);
}

/* --- writes ----------------------------------------------------------------------------------- */

static void what_was_filled_becomes_the_store_s(void **state)
{
	static const struct {
		uint64_t at, len;
	} cases[] = {{0, CHUNK},
		     {CHUNK, 2 * CHUNK},
		     {512, CHUNK}, /* none of it is a whole chunk */
		     {CHUNK - 512, CHUNK + 1024},
		     {4096, SIZE - 8192},
		     {0, SIZE}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int times = 0; times < 2; times++) {
			struct store *s = make();
			struct store_loan *l = lend(s, STORE_WRITE, cases[i].at, cases[i].len);

			assert_non_null(l);
			fill_loan(l, after, cases[i].len);
			expect(s, 0, before, SIZE); /* not before it is submitted */
			if (times == 0) {
				assert_int_equal(submit_loan(s, l, cases[i].at, cases[i].len), 0);
				memcpy(before + cases[i].at, after, cases[i].len);
			}
			l->end(l);
			expect(s, 0, before, SIZE); /* nor without */
			store_destroy(s);
		}
}

/* Also of memory that has held something else, of this store. */
static void what_is_written_in_part_has_zeroes_beside(void **state)
{
	struct store *s = make();

	(void)state;
	write_lent(s);
	discard_all(s);
	assert_int_equal(store_resize(s, 2 * (uint64_t)SIZE), 0);
	assert_int_equal(run(NULL, s, STORE_WRITE, SIZE + 1024, 512, after, 0), 0);
	memset(before, 0, SIZE);
	memcpy(before + 1024, after, 512);
	expect(s, SIZE, before, SIZE);
	store_destroy(s);
}

static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned n = 0;
	int ch;

	assert_non_null(f);
	while ((ch = fgetc(f)) != EOF)
		n += ch == '\n';
	fclose(f);
	return n;
}

/* Chunks that are given back from between others leave no gaps in the process's memory, and no
 * pages but a few. */
static void what_is_given_back_is_used_again(void **state)
{
	enum { CHUNKS = 600 };
	static struct store_loan *loans[CHUNKS / 2];
	struct store *s;
	unsigned many;

	(void)state;
	fill(after, SIZE, 5000);
	memset(room, 0, CHUNK);
	assert_int_equal(store_mem_create(CHUNKS * (uint64_t)CHUNK, 512, 0, &s), 0);
	for (unsigned i = 0; i < CHUNKS; i++)
		assert_int_equal(run(NULL, s, STORE_WRITE, i * (uint64_t)CHUNK, CHUNK, after, 0),
				 0);
	many = mappings();
	for (int times = 0; times < 3; times++) {
		for (unsigned i = 0; i < CHUNKS / 2; i++) {
			loans[i] = lend(s, STORE_READ, 2 * i * (uint64_t)CHUNK, CHUNK);
			assert_non_null(loans[i]);
		}
		assert_int_equal(run(NULL, s, STORE_DISCARD, 0, CHUNKS * (uint64_t)CHUNK, NULL, 0),
				 0);
		for (unsigned i = 0; i < CHUNKS / 2; i++)
			loans[i]->end(loans[i]);
		assert_true(mappings() <= many + 2);
		for (unsigned i = 0; i < CHUNKS; i++) {
			expect(s, i * (uint64_t)CHUNK, room, CHUNK); /* zeroes */
			assert_int_equal(run(NULL, s, STORE_WRITE, i * (uint64_t)CHUNK + 512,
					     CHUNK - 512, after, 0),
					 0);
			expect(s, i * (uint64_t)CHUNK, room, 512);
		}
		assert_true(mappings() <= many + 2);
	}
	store_destroy(s);
}

static void what_is_beyond_the_end_is_not_lent(void **state)
{
	struct store *s = make();
	struct store_loan *l;

	(void)state;
	assert_null(lend(s, STORE_READ, 0, CHUNK - 512)); /* a copy is cheaper */
	assert_null(lend(s, STORE_READ, CHUNK, SIZE));
	assert_null(lend(s, STORE_WRITE, SIZE, CHUNK));
	assert_null(lend(s, STORE_READ, UINT64_MAX - CHUNK + 1, CHUNK));
	assert_null(lend(s, STORE_READ, 0, (STORE_LOAN_PIECES + 1) * CHUNK));
	l = lend(s, STORE_WRITE, SIZE - CHUNK, CHUNK);
	assert_non_null(l);
	assert_int_equal(store_resize(s, CHUNK), 0);
	assert_int_equal(submit_loan(s, l, SIZE - CHUNK, CHUNK), -ERANGE);
	l->end(l);
	store_destroy(s);
}

static void without_memory_nothing_is_lent_and_what_is_lent_stays(void **state)
{
	struct rlimit old, none;
	struct store *s = make();
	struct store_loan *l = lend(s, STORE_READ, 0, SIZE), *more;
	int wrote, zeroed;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
	none = (struct rlimit){4096, old.rlim_max}; /* 0 is taken for none */
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	more = lend(s, STORE_WRITE, 0, SIZE);
	wrote = run(NULL, s, STORE_WRITE, 512, 512, after, 0);
	zeroed = run(NULL, s, STORE_ZERO, 512, 512, NULL, 0);
	assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
	assert_null(more);
	assert_int_equal(wrote, -ENOSPC);
	assert_int_equal(zeroed, -ENOSPC);
	expect_loan(l, before, SIZE);
	expect(s, 0, before, SIZE);
	/* A store that shrinks does not fail; one that grows may. */
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	wrote = store_resize(s, CHUNK + 512);
	zeroed = store_resize(s, SIZE);
	assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
	assert_int_equal(wrote, 0);
	assert_int_equal(zeroed, -ENOMEM);
	assert_int_equal(s->size, CHUNK + 512);
	expect_loan(l, before, SIZE);
	l->end(l);
	assert_int_equal(store_resize(s, SIZE), 0);
	memset(before + CHUNK + 512, 0, SIZE - CHUNK - 512);
	expect(s, 0, before, SIZE);
	store_destroy(s);
}

/* --- several threads ---------------------------------------------------------------------------
 */

#define THREADS 3
#define TURNS	2000

static struct store *shared;

/* Some write by copy, some fill what they are lent, some look at what they are lent: each chunk
 * says the same all over, and what is lent goes on saying it. */
static void *write_in_turn(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;
	uint8_t *mine = malloc(CHUNK);

	for (unsigned i = 0; i < TURNS; i++) {
		uint64_t at = i % 4 * CHUNK;
		struct store_loan *l = i % 2 ? lend(shared, STORE_WRITE, at, CHUNK) : NULL;

		memset(mine, (int)(me + i), CHUNK);
		if (!l) {
			assert(run(NULL, shared, STORE_WRITE, at, CHUNK, mine, 0) == 0);
			continue;
		}
		fill_loan(l, mine, CHUNK);
		assert(submit_loan(shared, l, at, CHUNK) == 0);
		l->end(l);
	}
	free(mine);
	return NULL;
}

static void lent_chunks_are_whole_while_others_write(void **state)
{
	struct store_engine *engines[THREADS];
	pthread_t threads[THREADS - 1];

	(void)state;
	shared = make();
	assert_int_equal(run(NULL, shared, STORE_ZERO, 0, SIZE, NULL, 0), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(store_engine_create(STORE_ENGINE_THREADS, &engines[i]), 0);
	assert_int_equal(store_share(shared, engines, THREADS), 0);
	for (uintptr_t i = 0; i < THREADS - 1; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, write_in_turn, (void *)(i * 128)), 0);
	for (unsigned i = 0; i < TURNS; i++) {
		struct store_loan *l = lend(shared, STORE_READ, 0, 4 * CHUNK);

		assert_non_null(l);
		for (unsigned n = 0; n < 2; n++)
			for (unsigned p = 0; p < l->count; p++) {
				const uint8_t *bytes = l->iov[p].iov_base;

				assert_int_equal(l->iov[p].iov_len, CHUNK);
				assert_int_equal(bytes[0], bytes[CHUNK - 1]);
				assert_int_equal(bytes[0], bytes[CHUNK / 2]);
			}
		l->end(l);
	}
	for (unsigned i = 0; i < THREADS - 1; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	store_destroy(shared);
	for (unsigned i = 0; i < THREADS; i++)
		store_engine_destroy(engines[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lent_stays_as_it_was),
		cmocka_unit_test(what_is_written_meanwhile_is_there_for_others),
		cmocka_unit_test(zeroes_are_lent_where_nothing_was_written),
		cmocka_unit_test(what_was_filled_becomes_the_store_s),
		cmocka_unit_test(what_is_written_in_part_has_zeroes_beside),
		cmocka_unit_test(what_is_given_back_is_used_again),
		cmocka_unit_test(what_is_beyond_the_end_is_not_lent),
		cmocka_unit_test(without_memory_nothing_is_lent_and_what_is_lent_stays),
		cmocka_unit_test(lent_chunks_are_whole_while_others_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
