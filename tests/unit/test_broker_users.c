/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A broker of root with users who do not trust each other: whatever one does with what it was
 * given, the packets of the others are theirs. */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../skip.h"
#include "broker/exchange.h"
#include "broker/fd_msg.h"
#include "broker/leases.h"
#include "broker_bed.h"
#include "netns.h"

enum { ALICE = 12345, MALLORY = 12346, BOB = 12347 };

#define REST_NS (LEASE_REST_NS + 100 * NSEC_PER_MSEC)

/* A client in a process of another user, which does one command at a time. */
struct user {
	pid_t pid;
	int to, from;
	uint8_t slot;
};

enum command {
	LEASE,
	REACHES,
	MISCHIEF,
	LET_GO,
	LEASE_MANY,
	CONNECT_MANY,
	CONNECT_SILENTLY,
	LISTENS,
	RECOVER,
	QUIT
};

/* Everything that is known to change who gets a datagram. Whether a call is refused does not
 * matter. */
static void mischief(int fd)
{
	struct sock_filter all[] = {{.code = BPF_RET | BPF_K, .k = 0xffff}};
	struct sock_filter first[] = {{.code = BPF_RET | BPF_K, .k = 0}};
	const struct sock_fprog steer = {.len = 1, .filter = first};
	const struct sock_fprog keep = {.len = 1, .filter = all};
	struct sockaddr_in6 port = {.sin6_family = AF_INET6, .sin6_port = htons(4791)};
	struct sockaddr unspec = {.sa_family = AF_UNSPEC};
	int on = 1, none = 0;

	(void)!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &keep, sizeof(keep));
	(void)!setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	(void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)!connect(fd, &unspec, sizeof(unspec));
	(void)!bind(fd, (struct sockaddr *)&port, sizeof(port));
	(void)!setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof(none));
	(void)!setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &steer, sizeof(steer));
	(void)!setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
	for (int i = 0; i < 2; i++) {
		int own = socket(i ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
		struct sockaddr_in v4 = {.sin_family = AF_INET,
					 .sin_port = htons(4791),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		(void)!setsockopt(own, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
		(void)!setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (!bind(own, i ? (struct sockaddr *)&v4 : (struct sockaddr *)&port,
			  i ? sizeof(v4) : sizeof(port)))
			_exit(3); /* it would hear what is others' */
	}
}

static int lease_many(void)
{
	struct broker_client *c[32];
	int n = 0, fd, rc;
	uint8_t slot;

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		if (broker_client_open(&c[i], bed_err, sizeof(bed_err)))
			return -1;
		while ((rc = broker_client_lease_slot(c[i], &slot, &fd)) == 0)
			n++;
		if (rc != -EDQUOT)
			return -1;
	}
	return n;
}

static int connect_many(void)
{
	struct broker_client *c;
	int n = 0;

	while (n < 100000 && broker_client_open(&c, bed_err, sizeof(bed_err)) == 0)
		n++;
	return n;
}

static int connect_silently(void)
{
	int n = 0;

	while (n < 200 && bed_raw_connection() >= 0)
		n++;
	return n;
}

static void be_user(uid_t uid, int from, int to)
{
	struct broker_client *c = NULL;
	int fd = -1, answer;
	uint8_t slot = 0;
	char command;

	/* Nothing of the others' came along. */
	for (int i = STDERR_FILENO + 1; i < 256; i++)
		if (i != from && i != to)
			close(i);
	if (setgid(uid) < 0 || setuid(uid) < 0)
		_exit(1);
	while (read(from, &command, 1) == 1) {
		answer = 0;
		switch (command) {
		case LEASE:
			answer = broker_client_open(&c, bed_err, sizeof(bed_err))
					 ?: broker_client_lease_slot(c, &slot, &fd);
			if (answer == 0)
				answer = slot;
			break;
		case REACHES:
			answer = bed_reaches(fd, slot);
			break;
		case LISTENS:
			answer = *bed_text(fd) != 0;
			break;
		case MISCHIEF:
			mischief(fd);
			break;
		case LET_GO: /* and keeps its copy */
			broker_client_close(c);
			break;
		case LEASE_MANY:
			answer = lease_many();
			break;
		case CONNECT_MANY:
			answer = connect_many();
			break;
		case CONNECT_SILENTLY:
			answer = connect_silently();
			break;
		case RECOVER:
			answer = broker_client_recover(c, NULL);
			break;
		case QUIT:
			_exit(0);
		}
		if (write(to, &answer, sizeof(answer)) < 0)
			_exit(2);
	}
	_exit(0);
}

static int tell(struct user *u, enum command command)
{
	char c = (char)command;
	int answer = -1;

	assert_int_equal(write(u->to, &c, 1), 1);
	assert_int_equal(read(u->from, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static struct user start(uid_t uid)
{
	int to[2], from[2];
	struct user u = {0};

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	u.pid = fork();
	if (u.pid == 0) {
		close(to[1]);
		close(from[0]);
		be_user(uid, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	u.to = to[1];
	u.from = from[0];
	return u;
}

static struct user with_slot(uid_t uid)
{
	struct user u = start(uid);
	int slot = tell(&u, LEASE);

	assert_in_range(slot, 1, LEASE_SLOTS - 1);
	u.slot = (uint8_t)slot;
	return u;
}

static void stop(struct user *u)
{
	const char quit = QUIT;
	int status;

	assert_int_equal(write(u->to, &quit, 1), 1);
	close(u->to);
	close(u->from);
	waitpid(u->pid, &status, 0);
	assert_int_equal(status, 0);
}

static int only_as_root(void **state)
{
	return geteuid() == 0 ? bed_fresh(state) : 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void each_user_gets_what_is_for_its_slot_and_no_more(void **state)
{
	struct broker_client *root;
	struct user alice, mallory;
	uint8_t slot;
	int fd;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	fd = bed_lease(root, &slot);
	alice = with_slot(ALICE);
	mallory = with_slot(MALLORY);
	assert_int_not_equal(alice.slot, mallory.slot);
	for (int round = 0; round < 2; round++) {
		assert_true(tell(&alice, REACHES));
		assert_true(bed_reaches(fd, slot));
		assert_int_equal(tell(&mallory, LISTENS), 0);
		if (round == 0)
			assert_true(tell(&mallory, REACHES));
		assert_int_equal(tell(&alice, LISTENS), 0);
		bed_send("::1", alice.slot, "six");
		assert_true(tell(&alice, LISTENS));
		assert_int_equal(tell(&mallory, LISTENS), 0);
		assert_string_equal(bed_text(fd), "");
		tell(&mallory, MISCHIEF);
	}
	stop(&alice);
	stop(&mallory);
	close(fd);
	broker_client_close(root);
}

static void what_a_user_kept_hears_nothing_of_the_next_holder(void **state)
{
	struct user mallory, alice[4];
	struct broker_client *root;
	int fd;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	mallory = with_slot(MALLORY);
	tell(&mallory, LET_GO);
	nanosleep(&(struct timespec){.tv_sec = REST_NS / NSEC_PER_SEC,
				     .tv_nsec = REST_NS % NSEC_PER_SEC},
		  NULL);
	for (int i = 0; i < 4; i++) {
		alice[i] = with_slot(ALICE);
		assert_int_not_equal(alice[i].slot, mallory.slot);
		assert_true(tell(&alice[i], REACHES));
	}
	assert_int_equal(tell(&mallory, LISTENS), 0);
	bed_send("::1", mallory.slot, "nobody's");
	assert_int_equal(tell(&mallory, LISTENS), 0);
	for (int i = 0; i < 4; i++)
		stop(&alice[i]);
	stop(&mallory);
	/* With its copy gone, the slot is worth something again: for root, too. */
	nanosleep(&(struct timespec){.tv_sec = REST_NS / NSEC_PER_SEC,
				     .tv_nsec = REST_NS % NSEC_PER_SEC},
		  NULL);
	for (int i = 0; i < 5; i++) {
		uint8_t slot;

		fd = bed_lease(root, &slot);
		assert_true(bed_reaches(fd, slot));
		close(fd);
		if (slot == mallory.slot)
			break;
		assert_int_not_equal(i, 4);
	}
	broker_client_close(root);
}

static void one_user_leaves_the_others_slots_and_connections(void **state)
{
	struct user mallory, alice;
	struct broker_client *root;
	uint8_t slot;
	int fd;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	mallory = start(MALLORY);
	assert_int_equal(tell(&mallory, LEASE_MANY), LEASE_USER_MAX);
	assert_in_range(tell(&mallory, CONNECT_MANY), 1, 2000);
	alice = with_slot(ALICE);
	assert_true(tell(&alice, REACHES));
	fd = bed_lease(root, &slot);
	assert_true(bed_reaches(fd, slot));
	close(fd);
	stop(&alice);
	stop(&mallory);
	broker_client_close(root);
}

/* Of a broker with few descriptors one has all its connections, and more, and says nothing. */
static void who_says_nothing_leaves_the_others_room(void **state)
{
	const struct rlimit few = {512, 512};
	struct user mallory, alice;
	struct broker_client *root;
	struct rlimit before;
	uint8_t slot;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	root = bed_client(); /* whose broker has it from us */
	(void)!setrlimit(RLIMIT_NOFILE, &before);
	mallory = start(MALLORY);
	assert_int_equal(tell(&mallory, CONNECT_SILENTLY), 200);
	alice = with_slot(ALICE);
	assert_true(tell(&alice, REACHES));
	close(bed_lease(root, &slot));
	stop(&alice);
	stop(&mallory);
	broker_client_close(root);
}

static void users_keep_their_slots_when_the_broker_is_killed(void **state)
{
	struct broker_client *root;
	struct user alice, mallory, bob;
	uint8_t slot;
	pid_t pid;
	int fd;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	fd = bed_lease(root, &slot);
	alice = with_slot(ALICE);
	mallory = with_slot(MALLORY);
	for (int round = 0; round < 2; round++) {
		pid = bed_broker_pid();
		kill(pid, SIGKILL);
		assert_true(eventually(2000, bed_ended(pid)));
		/* Another of root's is waited for. */
		assert_int_equal(tell(&mallory, RECOVER), -ECONNREFUSED);
		assert_int_equal(bed_broker_pid(), 0);
		assert_int_equal(broker_client_recover(root, NULL), 0);
		assert_int_equal(tell(&mallory, RECOVER), 0);
		assert_int_equal(tell(&alice, RECOVER), 0);
		assert_true(tell(&alice, REACHES));
		assert_true(tell(&mallory, REACHES));
		assert_true(bed_reaches(fd, slot));
		assert_int_equal(tell(&mallory, LISTENS), 0);
		assert_int_equal(tell(&alice, LISTENS), 0);
	}
	/* With nobody left of root's own, and others who come before them. */
	close(fd);
	broker_client_close(root);
	pid = bed_broker_pid();
	kill(pid, SIGKILL);
	assert_true(eventually(2000, bed_ended(pid)));
	root = bed_client();
	for (int i = 0; i < 4; i++) {
		uint8_t other;

		fd = bed_lease(root, &other);
		assert_int_not_equal(other, alice.slot);
		assert_int_not_equal(other, mallory.slot);
		close(fd);
		bob = with_slot(BOB);
		assert_int_not_equal(bob.slot, alice.slot);
		assert_int_not_equal(bob.slot, mallory.slot);
		stop(&bob);
	}
	assert_int_equal(tell(&alice, RECOVER), 0);
	assert_true(tell(&alice, REACHES));
	assert_int_equal(tell(&mallory, RECOVER), 0);
	assert_true(tell(&mallory, REACHES));
	stop(&alice);
	stop(&mallory);
	broker_client_close(root);
}

/* Whoever makes a network namespace of its own may mark a socket there as it likes. */
static int marked_socket_of_elsewhere(uint8_t slot, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int mark = 0x77656600 | slot, fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return -1;
	return fd;
}

/* Exit statuses: to the broker's answer (an errno), or one of these. */
enum { NO_NAMESPACE = 200, NO_USER };

static int steal(uint8_t slot)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct broker_hello hello = {.msg.type = BROKER_HELLO, .version = BROKER_PROTO_VERSION};
	struct broker_slot keep = {.msg.type = BROKER_KEEP_SLOT, .slot = slot};
	struct broker_msg resp = {0};
	int broker = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;

	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	if (setgid(MALLORY) < 0 || setuid(MALLORY) < 0 ||
	    connect(broker, (struct sockaddr *)&a,
		    offsetof(struct sockaddr_un, sun_path) + 1 + strlen(BROKER_SOCKET_NAME)) < 0 ||
	    exchange(broker, &hello, sizeof(hello), -1, &hello, sizeof(hello), NULL, NULL))
		return NO_USER;
	fd = marked_socket_of_elsewhere(slot, 40000);
	if (fd < 0)
		return NO_NAMESPACE;
	if (exchange(broker, &keep, sizeof(keep), fd, &resp, sizeof(resp), NULL, NULL))
		return EIO;
	if (resp.error == 0)
		sleep(2);
	return -resp.error;
}

static void nobody_takes_a_slot_whose_holder_has_not_come_yet(void **state)
{
	struct broker_client *root;
	struct user alice;
	pid_t pid, thief;
	int status;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	alice = with_slot(ALICE);
	pid = bed_broker_pid();
	kill(pid, SIGKILL);
	assert_true(eventually(2000, bed_ended(pid)));
	assert_int_equal(broker_client_recover(root, NULL), 0);
	thief = fork();
	if (thief == 0)
		_exit(steal(alice.slot));
	assert_int_equal(waitpid(thief, &status, 0), thief);
	assert_int_equal(tell(&alice, RECOVER), 0);
	assert_true(tell(&alice, REACHES));
	stop(&alice);
	broker_client_close(root);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		SKIP_CASE("an ordinary user can have no namespace here");
	assert_int_equal(WEXITSTATUS(status), EPERM);
}

/* A TCP socket whose close waits for a peer that never reads. */
static int lingering(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	const struct linger an_hour = {1, 3600};
	int l = socket(AF_INET, SOCK_STREAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);
	static char junk[1 << 16];

	assert_int_equal(bind(l, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(tcp, (struct sockaddr *)&at, len), 0);
	assert_true(accept(l, NULL, NULL) >= 0); /* open to the end */
	while (send(tcp, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	setsockopt(tcp, SOL_SOCKET, SO_LINGER, &an_hour, sizeof(an_hour));
	return tcp;
}

/* Sends the broker so many of them in one message: whoever receives it is the last to close them.
 */
static bool send_lingering(size_t n)
{
	union {
		char room[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(char[]){'x'}, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	int to_broker = bed_raw_connection(), fd[8];
	bool sent;

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		fd[i] = lingering();
	memcpy(CMSG_DATA(&control.align), fd, n * sizeof(int));
	sent = sendmsg(to_broker, &m, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
	close(to_broker);
	return sent;
}

static void nobody_is_held_up_by(size_t n)
{
	struct user alice;
	uint64_t begun;
	int status;
	int there[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(there, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (setuid(MALLORY) < 0 || !send_lingering(n) || write(there[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	close(there[1]);
	assert_int_equal(read(there[0], &c, 1), 1);
	close(there[0]);
	nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	begun = time_now_ns();
	alice = with_slot(ALICE);
	assert_true(time_now_ns() - begun < 2 * NSEC_PER_SEC);
	stop(&alice);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void what_takes_long_to_close_holds_up_nobody(void **state)
{
	struct broker_client *root;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	nobody_is_held_up_by(1);
	nobody_is_held_up_by(3);
	broker_client_close(root);
}

static void the_table_of_ports_ends_with_the_broker(void **state)
{
	struct broker_client *root;
	struct user alice;
	pid_t pid;

	(void)state;
	if (geteuid() || system("nft --version >/dev/null 2>&1"))
		SKIP_CASE("only root, with nft");
	root = bed_client();
	pid = bed_broker_pid();
	alice = with_slot(ALICE);
	assert_int_equal(system("nft list ruleset | grep -q weft_broker"), 0);
	kill(pid, SIGKILL);
	assert_true(eventually(2000, bed_ended(pid)));
	assert_int_not_equal(system("nft list ruleset | grep -q weft_broker"), 0);
	stop(&alice);
	broker_client_close(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_user_gets_what_is_for_its_slot_and_no_more,
				       only_as_root),
		cmocka_unit_test_setup(what_a_user_kept_hears_nothing_of_the_next_holder,
				       only_as_root),
		cmocka_unit_test_setup(one_user_leaves_the_others_slots_and_connections,
				       only_as_root),
		cmocka_unit_test_setup(who_says_nothing_leaves_the_others_room, only_as_root),
		cmocka_unit_test_setup(users_keep_their_slots_when_the_broker_is_killed,
				       only_as_root),
		cmocka_unit_test_setup(nobody_takes_a_slot_whose_holder_has_not_come_yet,
				       only_as_root),
		cmocka_unit_test_setup(what_takes_long_to_close_holds_up_nobody, only_as_root),
		cmocka_unit_test_setup(the_table_of_ports_ends_with_the_broker, only_as_root),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
