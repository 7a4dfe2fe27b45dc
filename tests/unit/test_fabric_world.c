/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Virtual time: what is put down happens in its order, whatever wheel it stood in. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "fabric/world.h"

#define MANY 5000

struct thing {
	struct happening happening;
	struct fabric *fabric;
	uint64_t wanted;
	unsigned number;
	bool happened;
};

static struct thing *last;

static void happens(struct happening *h)
{
	struct thing *t = container_of(h, struct thing, happening);

	assert_int_equal(fabric_now(t->fabric), t->wanted);
	if (last) {
		assert_true(last->wanted <= t->wanted);
		if (last->wanted == t->wanted)
			assert_true(last->number < t->number);
	}
	assert_false(t->happened);
	t->happened = true;
	last = t;
}

static struct fabric *world(void)
{
	struct fabric *f;

	assert_int_equal(fabric_create(&f, 1), 0);
	last = NULL;
	return f;
}

static void things_happen_by_time_and_then_by_who_was_first(void **state)
{
	struct thing *t = calloc(MANY, sizeof(*t));
	struct fabric *f = world();
	struct prng r = {.state = 7};

	(void)state;
	assert_non_null(t);
	for (unsigned i = 0; i < MANY; i++) {
		/* From the next nanosecond to hours away, many at one time. */
		uint64_t span = 1ull << prng_below(&r, 45);

		t[i].fabric = f;
		t[i].number = i;
		t[i].wanted = fabric_now(f) + prng_below(&r, span) / 4 * 4;
		happening_init(&t[i].happening, happens);
		fabric_put(f, &t[i].happening, t[i].wanted);
		if (i % 100 == 99) /* time goes on in between */
			fabric_step(f, fabric_now(f) + 5000);
	}
	while (fabric_step(f, UINT64_MAX / 2))
		;
	for (unsigned i = 0; i < MANY; i++)
		assert_true(t[i].happened);
	assert_int_equal(fabric_happened(f), MANY);
	fabric_destroy(f);
	free(t);
}

static void what_is_cancelled_or_moved_does_not_happen_then(void **state)
{
	struct fabric *f = world();
	struct thing a = {.fabric = f, .number = 0}, b = {.fabric = f, .number = 1};

	(void)state;
	happening_init(&a.happening, happens);
	happening_init(&b.happening, happens);
	fabric_put(f, &a.happening, fabric_now(f) + 10);
	fabric_put(f, &b.happening, fabric_now(f) + 20);
	assert_true(happening_is_due(&a.happening));
	happening_cancel(&a.happening);
	assert_false(happening_is_due(&a.happening));
	b.wanted = fabric_now(f) + 5000000;
	fabric_put(f, &b.happening, b.wanted);
	assert_false(fabric_step(f, fabric_now(f) + 1000));
	assert_true(fabric_step(f, UINT64_MAX / 2));
	assert_false(a.happened);
	assert_true(b.happened);
	fabric_destroy(f);
}

static void what_is_put_into_the_past_happens_now(void **state)
{
	struct fabric *f = world();
	struct thing a = {.fabric = f};

	(void)state;
	happening_init(&a.happening, happens);
	assert_false(fabric_step(f, FABRIC_BEGIN_NS + 100000));
	a.wanted = fabric_now(f);
	fabric_put(f, &a.happening, 5);
	assert_true(fabric_step(f, fabric_now(f) + 1));
	assert_true(a.happened);
	fabric_destroy(f);
}

static unsigned nevers;

static void never(void *what)
{
	nevers++;
	free(what);
}

static void call(void *ctx, void *what)
{
	(void)ctx;
	free(what);
}

static void what_never_happens_is_given_back(void **state)
{
	struct fabric *f = world();

	(void)state;
	nevers = 0;
	fabric_at(f, FABRIC_BEGIN_NS + 1, call, NULL, malloc(1), never);
	fabric_at(f, FABRIC_BEGIN_NS + (1ull << 40), call, NULL, malloc(1), never);
	assert_true(fabric_step(f, FABRIC_BEGIN_NS + 2));
	fabric_destroy(f);
	assert_int_equal(nevers, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(things_happen_by_time_and_then_by_who_was_first),
		cmocka_unit_test(what_is_cancelled_or_moved_does_not_happen_then),
		cmocka_unit_test(what_is_put_into_the_past_happens_now),
		cmocka_unit_test(what_never_happens_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
