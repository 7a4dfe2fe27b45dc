/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a program can do to the slots of others of its user: nothing that lasts. Against the broker
 * as its clients see it. */
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/leases.h"
#include "broker_bed.h"
#include "netns.h"

#define REST_MS	 (LEASE_REST_NS / NSEC_PER_MSEC + 100)
#define STEER_MS 3000 /* the broker puts its program back in less */

static void rest(void)
{
	nanosleep(&(struct timespec){.tv_sec = REST_MS / 1000,
				     .tv_nsec = (long)(REST_MS % 1000) * 1000000},
		  NULL);
}

/* All that comes for the group goes to one member. */
static void steer_all_to(int fd, uint32_t index)
{
	struct sock_filter all[] = {{.code = BPF_RET | BPF_K, .k = index}};
	const struct sock_fprog prog = {.len = 1, .filter = all};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)),
			 0);
}

/* Its filter lets nothing through, for ever. */
static void poison(int fd)
{
	struct sock_filter none[] = {{.code = BPF_RET | BPF_K, .k = 0}};
	const struct sock_fprog prog = {.len = 1, .filter = none};
	int on = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)), 0);
}

static void a_holder_that_steers_all_to_itself_is_undone(void **state)
{
	struct broker_client *a = bed_client(), *b = bed_client();
	uint8_t mine, others;
	int evil = bed_lease(a, &mine), good = bed_lease(b, &others);

	(void)state;
	assert_true(bed_reaches(good, others));
	steer_all_to(evil, mine + 1);
	assert_false(bed_reaches(good, others)); /* or this test shows nothing */
	assert_true(eventually(STEER_MS, bed_reaches(good, others)));
	while (*bed_text(evil))
		;
	assert_true(bed_reaches(good, others));
	assert_string_equal(bed_text(evil), "");
	close(evil);
	close(good);
	broker_client_close(a);
	broker_client_close(b);
}

static void a_holder_that_takes_the_steering_away_is_undone(void **state)
{
	struct broker_client *a = bed_client(), *b = bed_client();
	uint8_t mine, others, later;
	int evil = bed_lease(a, &mine), good = bed_lease(b, &others), next, none = 0;

	(void)state;
	assert_int_equal(setsockopt(evil, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof(none)),
			 0);
	/* A new lease need not wait. */
	next = bed_lease(b, &later);
	for (int i = 0; i < 50; i++) { /* the kernel's own choice would hit now and then */
		assert_true(bed_reaches(next, later));
		assert_true(bed_reaches(good, others));
	}
	assert_int_equal(setsockopt(evil, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof(none)),
			 0);
	rest();
	rest();
	for (int i = 0; i < 50; i++)
		assert_true(bed_reaches(next, later));
	close(next);
	close(evil);
	close(good);
	broker_client_close(a);
	broker_client_close(b);
}

/* Leases, gives back and leases again until every slot that was ever given back is out. */
static void a_copy_that_was_kept_hears_nothing_of_the_next_holder(void **state)
{
	enum { KEPT = 3, NEXT = 12 };
	struct broker_client *c = bed_client(), *next = bed_client();
	int kept[KEPT], fd[NEXT];
	uint8_t slot[NEXT], was;

	(void)state;
	for (int i = 0; i < KEPT; i++)
		kept[i] = bed_lease(c, &was);
	broker_client_close(c);
	rest();
	for (int i = 0; i < NEXT; i++)
		fd[i] = bed_lease(next, &slot[i]);
	for (int i = 0; i < NEXT; i++) {
		assert_true(bed_reaches(fd[i], slot[i]));
		for (int k = 0; k < KEPT; k++)
			assert_string_equal(bed_text(kept[k]), "");
	}
	/* When they close them, nobody's slot moves. */
	for (int i = 0; i < KEPT; i++) {
		close(kept[i]);
		for (int k = 0; k < NEXT; k++)
			assert_true(eventually(STEER_MS, bed_reaches(fd[k], slot[k])));
	}
	for (int i = 0; i < NEXT; i++)
		close(fd[i]);
	broker_client_close(next);
}

static void a_poisoned_socket_is_not_handed_on(void **state)
{
	struct broker_client *keep = bed_client(), *c = bed_client();
	uint8_t poisoned, again;
	int fd = bed_lease(c, &poisoned);

	(void)state;
	poison(fd);
	close(fd);
	broker_client_close(c);
	rest();
	/* Its slot is given out again, in time, and works. */
	for (int i = 0; i < 8; i++) {
		fd = bed_lease(keep, &again);
		assert_true(bed_reaches(fd, again));
		close(fd);
		if (again == poisoned)
			break;
	}
	assert_int_equal(again, poisoned);
	broker_client_close(keep);
}

/* As many come and go as there are slots, and more. */
static void slots_come_back_for_as_long_as_the_broker_lives(void **state)
{
	struct broker_client *keep = bed_client(), *c;
	uint8_t mine, slot;
	int stays = bed_lease(keep, &mine), fd;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int n = 0; n < 150; n++) {
			c = bed_client();
			fd = bed_lease(c, &slot);
			assert_int_not_equal(slot, mine);
			if (n % 30 == 0)
				assert_true(bed_reaches(fd, slot));
			close(fd);
			broker_client_close(c);
		}
		assert_true(bed_reaches(stays, mine));
		rest();
	}
	close(stays);
	broker_client_close(keep);
}

static void one_program_cannot_have_all_slots(void **state)
{
	struct broker_client *greedy = bed_client(), *modest = bed_client();
	uint8_t slot;
	int fd, rc, n = 0;

	(void)state;
	while ((rc = broker_client_lease_slot(greedy, &slot, &fd)) == 0 && n < LEASE_SLOTS) {
		close(fd);
		n++;
	}
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(n, 4, LEASE_SLOTS / 4);
	fd = bed_lease(modest, &slot);
	assert_true(bed_reaches(fd, slot));
	close(fd);
	broker_client_close(greedy);
	broker_client_close(modest);
}

static size_t descriptors_of(pid_t pid)
{
	char path[64];
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A reply whose descriptor finds no place is a failure, and not the connection's end. */
static void who_has_no_descriptor_left_keeps_the_broker(void **state)
{
	struct broker_client *c = bed_client();
	uint8_t slot, other;
	int fd = bed_lease(c, &slot), own = bed_connection(), next = dup(fd), none;
	size_t before = descriptors_of(bed_broker_pid());
	struct rlimit limit, low;
	uint32_t channel;

	(void)state;
	assert_true(own >= 0 && next > own);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = (struct rlimit){(rlim_t)next, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (int i = 0; i < 32; i++) {
		assert_int_equal(broker_client_cm_channel(c, &channel, &none), -EMFILE);
		assert_int_equal(broker_client_lease_slot(c, &other, &none), -EMFILE);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(bed_connection(), own);
	assert_true(bed_reaches(fd, slot));
	/* What was not had is not held. */
	assert_true(eventually(10000, descriptors_of(bed_broker_pid()) <= before));
	none = bed_lease(c, &other);
	close(none);
	close(fd);
	broker_client_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_holder_that_steers_all_to_itself_is_undone, bed_fresh),
		cmocka_unit_test_setup(a_holder_that_takes_the_steering_away_is_undone, bed_fresh),
		cmocka_unit_test_setup(a_copy_that_was_kept_hears_nothing_of_the_next_holder,
				       bed_fresh),
		cmocka_unit_test_setup(a_poisoned_socket_is_not_handed_on, bed_fresh),
		cmocka_unit_test_setup(slots_come_back_for_as_long_as_the_broker_lives, bed_fresh),
		cmocka_unit_test_setup(one_program_cannot_have_all_slots, bed_fresh),
		cmocka_unit_test_setup(who_has_no_descriptor_left_keeps_the_broker, bed_fresh),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
