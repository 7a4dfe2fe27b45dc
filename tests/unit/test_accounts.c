/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "nvmf/transport/accounts.h"

#define HOLDERS 100u
#define OF	500u /* together more than there are buckets for */

static struct accounts accounts;
static char holders[HOLDERS];

static void each_has_what_it_took_of_each(void **state)
{
	(void)state;
	assert_int_equal(accounts_init(&accounts, (size_t)HOLDERS * OF), 0);
	for (unsigned h = 0; h < HOLDERS; h++)
		for (unsigned of = 0; of < OF; of++)
			for (unsigned i = 0; i < 2; i++)
				accounts_take(&accounts, &holders[h], of, 1 + h + of);
	for (unsigned h = 0; h < HOLDERS; h++)
		for (unsigned of = 0; of < OF; of++)
			assert_int_equal(accounts_held(&accounts, &holders[h], of),
					 2 * (1 + h + of));
	accounts_put(&accounts, &holders[1], 7, 5);
	assert_int_equal(accounts_held(&accounts, &holders[1], 7), 2 * (1 + 1 + 7) - 5);
	assert_int_equal(accounts_held(&accounts, &holders[7], 1), 2 * (1 + 1 + 7));
	accounts_fini(&accounts);
}

/* What is at an end leaves its room to others, and those that share its bucket as they are. */
static void an_account_of_nothing_is_none(void **state)
{
	(void)state;
	assert_int_equal(accounts_init(&accounts, 2 * OF), 0);
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned of = 0; of < 2 * OF; of++) {
			assert_int_equal(accounts_held(&accounts, holders, of), 0);
			accounts_take(&accounts, holders, of, 4096);
		}
		for (unsigned of = 0; of < 2 * OF; of += 2)
			accounts_put(&accounts, holders, of, 4096);
		for (unsigned of = 0; of < 2 * OF; of++)
			assert_int_equal(accounts_held(&accounts, holders, of), of % 2 ? 4096 : 0);
		for (unsigned of = 1; of < 2 * OF; of += 2)
			accounts_put(&accounts, holders, of, 4096);
	}
	accounts_fini(&accounts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_what_it_took_of_each),
		cmocka_unit_test(an_account_of_nothing_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
