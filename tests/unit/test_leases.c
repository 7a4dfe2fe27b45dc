/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Slots and the bag from inside, where descriptors are few: what cannot be had is an error, nothing
 * is left of it, and what others have stays theirs. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "broker/leases.h"
#include "netns.h"

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* ., .. and the directory's own */
}

static void allow(rlim_t n)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* So many more may be opened from now on. */
static void allow_more(unsigned n)
{
	int fd[64];
	unsigned k = 0;

	while (k < n + 1)
		fd[k++] = dup(STDERR_FILENO);
	allow((rlim_t)fd[n]);
	while (k)
		close(fd[--k]);
}

static void it_begins_with_however_few_descriptors_or_not_at_all(void **state)
{
	unsigned before = descriptors();
	bool begun = false;

	(void)state;
	for (unsigned n = 0; n < 16; n++) {
		struct leases l;
		char err[512];
		bool heir;
		int rc;

		allow_more(n);
		rc = leases_init(&l, -1, -1, &heir, err, sizeof(err));
		allow(1024);
		assert_true(rc == 0 || rc == -EMFILE);
		if (begun)
			assert_int_equal(rc, 0);
		begun = rc == 0;
		if (rc == 0)
			leases_fini(&l);
		else
			assert_true(strlen(err) > 0);
		assert_int_equal(descriptors(), before);
	}
	assert_true(begun);
}

static void a_lease_that_fails_leaves_the_others(void **state)
{
	struct leases l;
	char err[512];
	bool heir;
	int fd, first, got = 0;

	(void)state;
	assert_int_equal(leases_init(&l, -1, -1, &heir, err, sizeof(err)), 0);
	first = leases_take(&l, geteuid(), 1, &fd);
	assert_true(first > 0);
	for (unsigned i = 0; i < 8; i++) {
		int rc;

		allow_more(i % 4);
		rc = leases_take(&l, geteuid(), 1, &fd);
		allow(1024);
		assert_true(rc > 0 || rc == -EMFILE);
		got += rc > 0;
		assert_true(l.members.count > l.members.used); /* a spare one, whatever happens */
		assert_true(leases_fd(&l, (unsigned)first) >= 0);
	}
	leases_fini(&l);
	assert_in_range(got, 1, 7);
}

static void an_heir_with_few_descriptors_leaves_all_to_the_next(void **state)
{
	unsigned before = descriptors();
	struct leases old, heir;
	int in, out, fd, slot, rc;
	bool is_heir;
	char err[512];

	(void)state;
	assert_int_equal(leases_init(&old, -1, -1, &is_heir, err, sizeof(err)), 0);
	assert_false(is_heir);
	for (int i = 0; i < 20; i++)
		slot = leases_take(&old, geteuid(), 1, &fd);
	fd = dup(fd);
	/* As a client has them; then the broker is no more. */
	in = dup(old.members.bag.in);
	out = dup(old.members.bag.out);
	leases_fini(&old);
	for (unsigned room = 2; room < 40; room += 3) {
		int i = dup(in), o = dup(out);

		allow_more(room);
		rc = leases_init(&heir, i, o, &is_heir, err, sizeof(err));
		allow(1024);
		if (rc == 0)
			break;
		assert_int_equal(rc, -EMFILE);
		assert_int_equal(descriptors(), before + 3);
	}
	assert_int_equal(rc, 0);
	assert_true(is_heir);
	assert_int_equal(leases_keep(&heir, (unsigned)slot, geteuid(), dup(fd)), 0);
	assert_int_equal(leases_keep(&heir, (unsigned)slot, geteuid(), fd), -EBUSY);
	leases_fini(&heir);
	close(fd);
	close(in);
	close(out);
	assert_int_equal(descriptors(), before);
}

/* What comes out of a bag is whatever somebody has put in. */
static void a_bag_with_anything_in_it_is_refused(void **state)
{
	unsigned before = descriptors();

	(void)state;
	srand(4791);
	for (int round = 0; round < 200; round++) {
		struct bag b;
		struct leases l;
		char err[512];
		bool heir;
		int i, o, rc;

		assert_int_equal(bag_open(&b), 0);
		for (int k = rand() % 12; k; k--)
			(void)!bag_put(&b,
				       rand() % 3 ? (uint32_t)rand() % 6
						  : (uint32_t)rand() % (2 * MEMBERS_MAX),
				       (uint64_t)rand() % 5, rand() % 2 ? STDERR_FILENO : -1);
		if (rand() % 2)
			(void)!bag_put(&b, MEMBERS_USED_KEY, (uint64_t)rand() % 400, -1);
		i = dup(b.in);
		o = dup(b.out);
		rc = leases_init(&l, i, o, &heir, err, sizeof(err));
		if (rc == 0)
			leases_fini(&l);
		bag_close(&b);
		assert_int_equal(descriptors(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_begins_with_however_few_descriptors_or_not_at_all),
		cmocka_unit_test(a_lease_that_fails_leaves_the_others),
		cmocka_unit_test(an_heir_with_few_descriptors_leaves_all_to_the_next),
		cmocka_unit_test(a_bag_with_anything_in_it_is_refused),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
