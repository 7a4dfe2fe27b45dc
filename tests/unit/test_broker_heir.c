/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A broker is killed, or told to end, and the next one goes on where it was. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/leases.h"
#include "broker_bed.h"
#include "netns.h"

static void end_broker(int sig)
{
	pid_t pid = bed_broker_pid();

	assert_true(pid > 0);
	kill(pid, sig);
	assert_true(eventually(2000, bed_ended(pid)));
}

static void kill_broker(void)
{
	end_broker(SIGKILL);
}

static void slots_stay(int sig)
{
	enum { CLIENTS = 5 };
	struct broker_client *c[CLIENTS], *late;
	uint8_t slot[CLIENTS], again;
	int fd[CLIENTS], new;

	for (int i = 0; i < CLIENTS; i++) {
		c[i] = bed_client();
		fd[i] = bed_lease(c[i], &slot[i]);
	}
	for (int round = 0; round < 3; round++) {
		end_broker(sig);
		/* Nobody has noticed yet, and nobody need: sockets stay where they are. */
		for (int i = 0; i < CLIENTS; i++)
			assert_true(bed_reaches(fd[i], slot[i]));
		for (int i = CLIENTS - 1; i >= 0; i--)
			assert_int_equal(broker_client_recover(c[i], NULL), 0);
		for (int i = 0; i < CLIENTS; i++)
			assert_true(bed_reaches(fd[i], slot[i]));
		late = bed_client();
		new = bed_lease(late, &again);
		for (int i = 0; i < CLIENTS; i++)
			assert_int_not_equal(slot[i], again);
		assert_true(bed_reaches(new, again));
		close(new);
		broker_client_close(late);
	}
	for (int i = 0; i < CLIENTS; i++) {
		close(fd[i]);
		broker_client_close(c[i]);
	}
}

static void slots_stay_with_their_holders(void **state)
{
	(void)state;
	slots_stay(SIGKILL);
}

static void slots_stay_when_a_broker_is_told_to_end(void **state)
{
	(void)state;
	slots_stay(SIGTERM);
}

/* It takes them for ended, and they come back. */
static void who_has_lost_a_living_broker_keeps_its_slots(void **state)
{
	struct broker_client *c = bed_client(), *other;
	uint8_t slot;
	int fd = bed_lease(c, &slot), own = bed_connection();
	pid_t pid = bed_broker_pid();

	(void)state;
	other = bed_client(); /* keeps the broker */
	assert_int_equal(shutdown(own, SHUT_RDWR), 0);
	assert_true(eventually(10000, !bed_reaches(fd, slot)));
	assert_int_equal(broker_client_recover(c, NULL), 0);
	assert_true(bed_reaches(fd, slot));
	assert_int_equal(bed_broker_pid(), pid);
	close(fd);
	broker_client_close(c);
	broker_client_close(other);
}

static void who_calls_the_broker_finds_the_next(void **state)
{
	struct broker_client *c = bed_client();
	uint8_t slot, second;
	int fd = bed_lease(c, &slot), more;

	(void)state;
	kill_broker();
	more = bed_lease(c, &second);
	assert_int_not_equal(second, slot);
	assert_true(bed_reaches(fd, slot));
	assert_true(bed_reaches(more, second));
	close(fd);
	close(more);
	broker_client_close(c);
}

/* One that has nothing of the last broker's comes first. */
static void who_comes_new_waits_for_those_who_hold_the_sockets(void **state)
{
	struct broker_client *c = NULL;
	int ready[2], go[2], status, fd;
	uint8_t slot;
	pid_t pid;
	char b;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		c = bed_client();
		fd = bed_lease(c, &slot);
		(void)!write(ready[1], "", 1);
		(void)!read(go[0], &b, 1);
		nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
		_exit(broker_client_recover(c, NULL) == 0 && bed_reaches(fd, slot) ? 0 : 1);
	}
	assert_int_equal(read(ready[0], &b, 1), 1);
	kill_broker();
	assert_int_equal(write(go[1], "", 1), 1);
	c = bed_client();
	fd = bed_lease(c, &slot);
	assert_true(bed_reaches(fd, slot));
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	close(fd);
	broker_client_close(c);
}

static bool is_broker(pid_t pid)
{
	char path[64], line[128] = {0}, own[64] = {0}, its[64] = {0};
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	(void)!fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return !strcmp(line + strlen(line) + 1, "broker") &&
	       readlink("/proc/self/ns/net", own, sizeof(own) - 1) > 0 &&
	       readlink(path, its, sizeof(its) - 1) > 0 && !strcmp(own, its);
}

/* Kills every broker that it sees, however young; how many. */
static int kill_brokers_for(uint64_t ns)
{
	uint64_t end = time_now_ns() + ns;
	int killed = 0;

	while (time_now_ns() < end) {
		DIR *d = opendir("/proc");
		struct dirent *e;

		while (d && (e = readdir(d)))
			if (atoi(e->d_name) > 1 && is_broker(atoi(e->d_name)))
				killed += kill(atoi(e->d_name), SIGKILL) == 0;
		closedir(d);
		nanosleep(&(struct timespec){.tv_nsec = rand() % 8 * 1000000}, NULL);
	}
	return killed;
}

static void brokers_that_die_as_they_begin_leave_all_to_the_next(void **state)
{
	enum { CLIENTS = 4 };
	struct broker_client *c[CLIENTS];
	uint8_t slot[CLIENTS];
	int fd[CLIENTS], status;
	pid_t pid;

	(void)state;
	for (int i = 0; i < CLIENTS; i++) {
		c[i] = bed_client();
		fd[i] = bed_lease(c[i], &slot[i]);
	}
	pid = fork();
	if (pid == 0) {
		_exit(kill_brokers_for(3 * NSEC_PER_SEC) < 3);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		for (int i = 0; i < CLIENTS; i++)
			(void)!broker_client_recover(c[i], NULL);
	assert_int_equal(status, 0); /* some were killed */
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(broker_client_recover(c[i], NULL), 0);
	for (int i = 0; i < CLIENTS; i++) {
		assert_true(bed_reaches(fd[i], slot[i]));
		close(fd[i]);
		broker_client_close(c[i]);
	}
}

static void one_that_is_killed_as_it_starts_is_followed_by_another(void **state)
{
	char script[] = "/tmp/weft-test-broker-XXXXXX", real[4096], text[9000];
	const int fd = mkstemp(script);
	struct broker_client *c;

	(void)state;
	assert_true(fd >= 0);
	snprintf(real, sizeof(real), "%s", getenv("WEFT_BROKER"));
	snprintf(text, sizeof(text),
		 "#!/bin/sh\n[ -e %s.once ] || { touch %s.once; kill -9 $$; }\n"
		 "exec %s \"$@\"\n",
		 script, script, real);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, 0755), 0);
	close(fd);
	if (bed_broker_pid() > 0)
		kill_broker();
	assert_int_equal(setenv("WEFT_BROKER", script, 1), 0);
	c = bed_client();
	assert_int_equal(setenv("WEFT_BROKER", real, 1), 0);
	broker_client_close(c);
	unlink(script);
	snprintf(text, sizeof(text), "%s.once", script);
	assert_int_equal(unlink(text), 0);
}

/* Programs come, go, keep copies, and the broker dies again and again. */
static void whatever_happens_slots_are_whose_they_are(void **state)
{
	enum { AT_ONCE = 12, STEPS = 400 };
	struct {
		struct broker_client *c;
		int fd, copy;
		uint8_t slot;
	} p[AT_ONCE] = {0};
	struct broker_client *keep = bed_client();
	unsigned seed = 4791;
	uint8_t mine;
	int fd = bed_lease(keep, &mine);

	(void)state;
	for (int step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)rand_r(&seed) % AT_ONCE;

		if (step % 16 == 15) {
			kill_broker();
			assert_int_equal(broker_client_recover(keep, NULL), 0);
			for (int k = 0; k < AT_ONCE; k++)
				if (p[k].c)
					assert_int_equal(broker_client_recover(p[k].c, NULL), 0);
			for (int k = 0; k < AT_ONCE; k++)
				if (p[k].c)
					assert_true(bed_reaches(p[k].fd, p[k].slot));
		} else if (!p[i].c) {
			p[i].c = bed_client();
			p[i].fd = bed_lease(p[i].c, &p[i].slot);
			p[i].copy = rand_r(&seed) % 4 ? -1 : dup(p[i].fd);
			assert_true(bed_reaches(p[i].fd, p[i].slot));
		} else {
			if (rand_r(&seed) % 2)
				broker_client_close(p[i].c);
			close(p[i].fd);
			if (p[i].copy >= 0)
				close(p[i].copy);
			/* A copy that stays goes with the test's end. */
			p[i].c = NULL;
		}
		if (step % 32 == 31) /* some have rested */
			nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
		assert_true(bed_reaches(fd, mine));
	}
}

static void nobody_gets_the_slot_of_one_who_has_not_come_yet(void **state)
{
	struct broker_client *c = bed_client(), *slow = bed_client(), *greedy[LEASE_SLOTS / 16];
	uint8_t mine, theirs;
	int fd = bed_lease(slow, &mine), other, n = 0, rc = 0;

	(void)state;
	kill_broker();
	assert_int_equal(broker_client_recover(c, NULL), 0);
	/* Everything that can be had. */
	for (size_t i = 0; i < ARRAY_SIZE(greedy); i++) {
		greedy[i] = bed_client();
		for (int k = 0; k < 16 && rc == 0; k++) {
			rc = broker_client_lease_slot(greedy[i], &theirs, &other);
			if (rc == 0) {
				assert_int_not_equal(theirs, mine);
				close(other);
				n++;
			}
		}
	}
	assert_in_range(n, 200, LEASE_SLOTS - 2);
	assert_int_equal(broker_client_recover(slow, NULL), 0);
	assert_true(bed_reaches(fd, mine));
	for (size_t i = 0; i < ARRAY_SIZE(greedy); i++)
		broker_client_close(greedy[i]);
	close(fd);
	broker_client_close(slow);
	broker_client_close(c);
}

static void a_slot_is_not_kept_by_who_has_another_socket(void **state)
{
	struct broker_client *a = bed_client(), *b = bed_client();
	uint8_t slot[2];
	int fd[2] = {bed_lease(a, &slot[0]), bed_lease(b, &slot[1])}, swap;

	(void)state;
	/* a's journal says its slot and b's socket from now on. */
	swap = dup(fd[0]);
	kill_broker();
	dup2(fd[1], fd[0]);
	assert_int_equal(broker_client_recover(a, NULL), 0);
	assert_int_equal(broker_client_recover(b, NULL), 0);
	assert_true(bed_reaches(fd[1], slot[1]));
	close(swap);
	close(fd[0]);
	close(fd[1]);
	broker_client_close(a);
	broker_client_close(b);
}

/* The port that another id is to be bound to. */
static bool is_held(struct broker_client *c, struct broker_cm_create_id create,
		    struct broker_cm_bind bind)
{
	struct broker_cm_create_id created;
	struct broker_cm_bind bound;

	assert_int_equal(
		broker_client_call(c, &create, sizeof(create), &created, sizeof(created), NULL), 0);
	bind.id = created.id;
	return broker_client_call(c, &bind, sizeof(bind), &bound, sizeof(bound), NULL) ==
	       -EADDRNOTAVAIL;
}

static void channels_and_identifiers_go_on(void **state)
{
	struct broker_client *c = bed_client();
	struct broker_cm_create_id create = {.msg.type = BROKER_CM_CREATE_ID,
					     .user = 77,
					     .ps = 0x0106 /* RDMA_PS_TCP */},
				   created;
	struct broker_cm_bind bind = {.msg.type = BROKER_CM_BIND, .port = 4711, .af_ipv4 = 1},
			      bound;
	struct broker_cm_listen listen = {.msg.type = BROKER_CM_LISTEN};
	struct broker_cm_post post = {
		.msg.type = BROKER_CM_POST, .type = BROKER_CM_EV_ROUTE_RESOLVED, .token = 5};
	struct broker_cm_event ev;
	struct broker_msg resp;
	struct pollfd p;
	int fd;

	(void)state;
	assert_int_equal(broker_client_cm_channel(c, &create.channel, &fd), 0);
	assert_int_equal(
		broker_client_call(c, &create, sizeof(create), &created, sizeof(created), NULL), 0);
	bind.id = listen.id = post.id = created.id;
	post.token = 4;
	assert_int_equal(broker_client_call(c, &post, sizeof(post), &resp, sizeof(resp), NULL), 0);
	post.token = 5;
	assert_int_equal(broker_client_call(c, &bind, sizeof(bind), &bound, sizeof(bound), NULL),
			 0);
	assert_int_equal(broker_client_call(c, &listen, sizeof(listen), &resp, sizeof(resp), NULL),
			 0);
	assert_int_equal(broker_client_call(c, &post, sizeof(post), &resp, sizeof(resp), NULL), 0);

	kill_broker();
	assert_int_equal(broker_client_recover(c, NULL), 0);
	/* What lay in the pipe is there, and more comes by the same descriptor. It says how the id
	 * was before it was bound, which is of no consequence. */
	assert_int_equal(read(fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.token, 4);
	broker_client_event(c, &ev);
	assert_true(is_held(c, create, bind));
	assert_int_equal(read(fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.token, 5);
	broker_client_event(c, &ev);
	post.token = 6;
	assert_int_equal(broker_client_call(c, &post, sizeof(post), &resp, sizeof(resp), NULL), 0);
	assert_int_equal(read(fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.token, 6);
	assert_int_equal(ev.id, created.id);
	assert_int_equal(ev.user, 77);
	p = (struct pollfd){.fd = fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 0), 0); /* no end of file */
	assert_true(is_held(c, create, bind));
	close(fd);
	broker_client_close(c);
}

static uint32_t new_identifier(struct broker_client *c)
{
	struct broker_cm_create_id create = {.msg.type = BROKER_CM_CREATE_ID,
					     .ps = 0x0106 /* RDMA_PS_TCP */},
				   created;
	int fd;

	assert_int_equal(broker_client_cm_channel(c, &create.channel, &fd), 0);
	assert_int_equal(
		broker_client_call(c, &create, sizeof(create), &created, sizeof(created), NULL), 0);
	close(fd);
	return created.id;
}

static bool is_known(struct broker_client *c, uint32_t id)
{
	struct broker_cm_bind bind = {.msg.type = BROKER_CM_BIND, .id = id, .af_ipv4 = 1}, bound;

	return broker_client_call(c, &bind, sizeof(bind), &bound, sizeof(bound), NULL) == 0;
}

/* Those of who has come lead the next broker to where those of who has not come yet are. */
static void identifiers_are_not_lost_for_coming_after_new_ones(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		struct broker_client *quick = bed_client(), *late = bed_client();
		uint32_t first = new_identifier(quick), later[4];

		for (size_t i = 0; i < ARRAY_SIZE(later); i++)
			later[i] = new_identifier(late);
		kill_broker();
		assert_int_equal(broker_client_recover(quick, NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(later); i++)
			assert_true(is_known(quick, new_identifier(quick)));
		assert_int_equal(broker_client_recover(late, NULL), 0);
		assert_true(is_known(quick, first));
		for (size_t i = 0; i < ARRAY_SIZE(later); i++)
			assert_true(is_known(late, later[i]));
		broker_client_close(quick);
		broker_client_close(late);
	}
}

static void a_second_broker_by_hand_says_who_serves_already(void **state)
{
	struct broker_client *c = bed_client();
	char text[512] = "", pid[32];
	FILE *f = popen("$WEFT_BROKER broker -f 2>&1; echo status $?", "r");

	(void)state;
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	pclose(f);
	snprintf(pid, sizeof(pid), "pid %d", bed_broker_pid());
	assert_non_null(strstr(text, "serves this network namespace already"));
	assert_non_null(strstr(text, pid));
	assert_non_null(strstr(text, "status 1"));
	broker_client_close(c);
}

/* One that a program has started, and comes second, is not to alarm whoever adopts it. */
static void one_that_is_not_needed_ends_without_a_failure(void **state)
{
	struct broker_client *c = bed_client();

	(void)state;
	assert_int_equal(system("$WEFT_BROKER broker -f --ready-fd 9 9>/dev/null 2>/dev/null"), 0);
	broker_client_close(c);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup(f, bed_fresh)
	const struct CMUnitTest tests[] = {
		FRESH(slots_stay_with_their_holders),
		FRESH(slots_stay_when_a_broker_is_told_to_end),
		FRESH(who_has_lost_a_living_broker_keeps_its_slots),
		FRESH(who_calls_the_broker_finds_the_next),
		FRESH(who_comes_new_waits_for_those_who_hold_the_sockets),
		FRESH(brokers_that_die_as_they_begin_leave_all_to_the_next),
		FRESH(one_that_is_killed_as_it_starts_is_followed_by_another),
		FRESH(nobody_gets_the_slot_of_one_who_has_not_come_yet),
		FRESH(a_slot_is_not_kept_by_who_has_another_socket),
		FRESH(channels_and_identifiers_go_on),
		FRESH(identifiers_are_not_lost_for_coming_after_new_ones),
		FRESH(a_second_broker_by_hand_says_who_serves_already),
		FRESH(one_that_is_not_needed_ends_without_a_failure),
		FRESH(whatever_happens_slots_are_whose_they_are), /* last: it keeps all */
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
