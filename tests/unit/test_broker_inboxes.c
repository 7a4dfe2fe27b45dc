/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inboxes for processes of the host (port/local), as the broker hands them from one to another. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../skip.h"
#include "broker_bed.h"
#include "netns.h"
#include "port/local/inbox.h"

struct owner {
	struct broker_client *client;
	struct inbox *inbox;
	uint8_t slot;
	int fd, socket;
};

static struct owner owner(void)
{
	struct owner o = {.client = bed_client()};

	o.socket = bed_lease(o.client, &o.slot);
	o.fd = inbox_create(&o.inbox);
	assert_true(o.fd >= 0);
	assert_int_equal(broker_client_offer_inbox(o.client, o.slot, o.fd), 0);
	return o;
}

/* As its process would, and without a word to the broker: the memory stays for us to look at. */
static void ends(struct owner *o)
{
	broker_client_close(o->client);
	close(o->socket);
}

static void forget(struct owner *o)
{
	inbox_unmap(o->inbox);
	close(o->fd);
}

static bool finds(struct owner *o, const struct owner *other)
{
	struct stat a, b;
	int fd = -1, rc = broker_client_find_inbox(o->client, other->slot, &fd);

	if (rc)
		return false;
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(fstat(other->fd, &b), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	return a.st_ino == b.st_ino;
}

static bool is_among_all(struct owner *o, uint8_t slot)
{
	struct broker_inboxes all;

	assert_int_equal(broker_client_inboxes(o->client, &all), 0);
	return all.slots[slot / 64] >> slot % 64 & 1;
}

static void they_are_found_while_their_owners_live(void **state)
{
	struct owner a = owner(), b;
	uint32_t news = atomic_load(&a.inbox->news);
	int fd;

	(void)state;
	assert_int_equal(broker_client_find_inbox(a.client, a.slot ^ 0x80, &fd), -ENOENT);
	b = owner();
	assert_true(finds(&a, &b));
	assert_true(finds(&b, &a));
	assert_true(finds(&a, &a));
	assert_true(is_among_all(&a, b.slot));
	assert_int_not_equal(atomic_load(&a.inbox->news), news);
	assert_false(atomic_load(&b.inbox->closed));
	ends(&b);
	assert_true(eventually(2000, atomic_load(&b.inbox->closed)));
	assert_false(finds(&a, &b));
	assert_false(is_among_all(&a, b.slot));
	assert_false(atomic_load(&a.inbox->closed));
	forget(&b);
	ends(&a);
	forget(&a);
}

static void one_offers_for_its_own_slots(void **state)
{
	struct owner a = owner(), b = owner();
	uint8_t none;
	int zero = open("/dev/zero", O_RDWR | O_CLOEXEC), more = bed_lease(a.client, &none);

	(void)state;
	assert_int_equal(broker_client_offer_inbox(a.client, b.slot, a.fd), -EPERM);
	assert_true(finds(&a, &b));
	assert_int_equal(broker_client_offer_inbox(a.client, none, zero), -EINVAL);
	assert_int_equal(broker_client_offer_inbox(a.client, none, more), -EINVAL);
	assert_false(is_among_all(&b, none));
	/* A slot has one, the last. */
	assert_int_equal(broker_client_offer_inbox(a.client, a.slot, b.fd), 0);
	assert_false(finds(&b, &a));
	close(zero);
	close(more);
	ends(&a);
	ends(&b);
	forget(&a);
	forget(&b);
}

static struct owner seen_from_outside;

/* In another user's process; 0: there is none for it. */
static int looks_for_it(void)
{
	struct broker_inboxes all;
	struct broker_client *c;
	int fd;

	if (setuid(12345) < 0 || broker_client_open(&c, bed_err, sizeof(bed_err)))
		return 1;
	if (broker_client_find_inbox(c, seen_from_outside.slot, &fd) != -ENOENT)
		return 2;
	if (broker_client_inboxes(c, &all))
		return 3;
	for (unsigned i = 0; i < 4; i++)
		if (all.slots[i])
			return 4;
	return 0;
}

static void other_users_are_no_neighbours(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		SKIP_CASE("only root can be other users");
	seen_from_outside = owner();
	pid = fork();
	if (pid == 0)
		_exit(looks_for_it());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	ends(&seen_from_outside);
	forget(&seen_from_outside);
}

static void they_stay_open_when_a_broker_is_told_to_end(void **state)
{
	struct owner a = owner(), b = owner();
	pid_t pid = bed_broker_pid();

	(void)state;
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_true(eventually(2000, bed_ended(pid)));
	assert_false(atomic_load(&a.inbox->closed));
	assert_false(atomic_load(&b.inbox->closed));
	assert_int_equal(broker_client_recover(a.client, NULL), 0);
	assert_int_equal(broker_client_recover(b.client, NULL), 0);
	assert_true(finds(&a, &b));
	assert_false(atomic_load(&b.inbox->closed));
	/* The next one closes them when they end. */
	ends(&a);
	ends(&b);
	assert_true(eventually(2000, atomic_load(&b.inbox->closed)));
	forget(&a);
	forget(&b);
}

static void they_stay_when_another_broker_comes(void **state)
{
	struct owner a = owner(), b = owner(), c;
	pid_t pid = bed_broker_pid();
	uint32_t news;

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(eventually(2000, bed_ended(pid)));
	assert_int_equal(broker_client_recover(a.client, NULL), 0);
	assert_int_equal(broker_client_recover(b.client, NULL), 0);
	assert_true(finds(&a, &b));
	assert_true(finds(&b, &a));
	news = atomic_load(&a.inbox->news);
	c = owner();
	assert_int_not_equal(atomic_load(&a.inbox->news), news);
	/* It sees to the end of who came from the one before. */
	ends(&b);
	assert_true(eventually(2000, atomic_load(&b.inbox->closed)));
	assert_false(atomic_load(&a.inbox->closed));
	forget(&b);
	ends(&a);
	ends(&c);
	forget(&a);
	forget(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(they_are_found_while_their_owners_live, bed_fresh),
		cmocka_unit_test_setup(one_offers_for_its_own_slots, bed_fresh),
		cmocka_unit_test_setup(other_users_are_no_neighbours, bed_fresh),
		cmocka_unit_test_setup(they_stay_open_when_a_broker_is_told_to_end, bed_fresh),
		cmocka_unit_test_setup(they_stay_when_another_broker_comes, bed_fresh),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
