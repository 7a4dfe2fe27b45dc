/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who uses the broker: told to whom it concerns, and to nobody else. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../skip.h"
#include "broker/exchange.h"
#include "broker/list_ask.h"
#include "broker/name.h"
#include "broker_bed.h"
#include "netns.h"
#include "wire/cm_ip.h"

enum { ALICE = 12345, MALLORY = 12346, LOOPS = 8, MANY = 16384 };

static char err[512];

/* A child that goes with the test, and is that user's. */
static void become(uid_t uid)
{
	if (uid != geteuid() && (setgid(uid) < 0 || setuid(uid) < 0))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int call(struct broker_client *c, const void *req, size_t len, void *resp, size_t resp_len)
{
	return broker_client_call(c, req, len, resp, resp_len, NULL);
}

static int use(uint16_t port)
{
	struct broker_cm_create_id create = {.msg.type = BROKER_CM_CREATE_ID, .ps = CM_PS_TCP}, id;
	struct broker_cm_bind bind = {.msg.type = BROKER_CM_BIND, .port = port}, bound;
	struct broker_cm_listen listen = {.msg.type = BROKER_CM_LISTEN};
	struct broker_client *c;
	struct broker_msg done;
	uint8_t slot;
	int fd, rc;

	rc = broker_client_open(&c, err, sizeof(err)) ?: broker_client_lease_slot(c, &slot, &fd);
	if (!rc)
		rc = broker_client_cm_channel(c, &create.channel, &fd);
	if (!rc)
		rc = call(c, &create, sizeof(create), &id, sizeof(id));
	bind.id = listen.id = id.id;
	if (!rc)
		rc = call(c, &bind, sizeof(bind), &bound, sizeof(bound));
	return rc ?: call(c, &listen, sizeof(listen), &done, sizeof(done));
}

/* A process of that user's with a slot and a listener at the port, until it is killed. */
static pid_t start(uid_t uid, uint16_t port)
{
	int ready[2], status = -1;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		become(uid);
		status = use(port);
		if (write(ready[1], &status, sizeof(status)) < 0)
			_exit(2);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &status, sizeof(status)), sizeof(status));
	close(ready[0]);
	assert_int_equal(status, 0);
	return pid;
}

static void stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* What a process of that user's is told: how many clients, of which this is one, and ids. Or the
 * error. */
struct told {
	int rc;
	size_t clients, ids;
	bool found, pids_ours;
	uint16_t port; /* of the last id */
	uid_t broker_uid;
};

static struct told ask_as(uid_t uid, pid_t about)
{
	struct told t = {0};
	int out[2], status;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		struct broker_listing l;

		become(uid);
		t.rc = broker_list(&l, err, sizeof(err));
		if (t.rc == 0) {
			t.clients = l.client_count;
			t.ids = l.id_count;
			t.pids_ours = l.pids_ours;
			t.broker_uid = l.uid;
			for (size_t i = 0; i < l.client_count; i++)
				t.found |= (pid_t)l.clients[i].pid == about;
			for (size_t i = 0; i < l.id_count; i++)
				t.port = l.ids[i].local_port;
			broker_listing_free(&l);
		}
		_exit(write(out[1], &t, sizeof(t)) < 0);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &t, sizeof(t)), sizeof(t));
	close(out[0]);
	waitpid(pid, &status, 0);
	return t;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void no_broker_is_started_to_be_asked(void **state)
{
	struct broker_listing l;

	(void)state;
	assert_int_equal(broker_list(&l, err, sizeof(err)), -ENOENT);
	assert_int_equal(bed_broker_pid(), 0);
}

static void a_process_is_told_of_until_it_has_gone(void **state)
{
	struct broker_client *own = bed_client();
	struct broker_listing l;
	uint8_t slot;
	int fd = bed_lease(own, &slot);
	pid_t pid = start(geteuid(), 7000);

	(void)state;
	assert_int_equal(broker_list(&l, err, sizeof(err)), 0);
	assert_int_equal(l.broker, bed_broker_pid());
	assert_int_equal(l.uid, geteuid());
	assert_true(l.pids_ours);
	assert_int_equal(l.client_count, 2);
	assert_int_equal(l.clients[0].pid, getpid());
	assert_int_equal(l.clients[0].uid, geteuid());
	assert_true(l.clients[0].slots[slot / 8] & 1u << slot % 8);
	assert_true(l.clients[0].age_ns <= l.age_ns);
	assert_int_equal(l.clients[1].pid, pid);
	assert_int_equal(l.id_count, 1);
	assert_int_equal(l.ids[0].client, l.clients[1].nr);
	assert_int_equal(l.ids[0].state, BROKER_LIST_LISTEN);
	assert_int_equal(l.ids[0].local_port, 7000);
	assert_true(l.devices.count >= 1);
	broker_listing_free(&l);
	stop(pid);
	assert_true(eventually(5000, ask_as(geteuid(), pid).clients == 1));
	close(fd);
	broker_client_close(own);
}

static void a_user_is_told_of_its_own_processes_and_root_of_all(void **state)
{
	struct broker_client *root;
	struct told t;
	pid_t alice, mallory;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	root = bed_client();
	alice = start(ALICE, 7001);
	mallory = start(MALLORY, 7002);
	t = ask_as(0, alice);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.clients, 3);
	assert_int_equal(t.ids, 2);
	t = ask_as(ALICE, alice);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.clients, 1);
	assert_true(t.found);
	assert_int_equal(t.ids, 1);
	assert_int_equal(t.port, 7001);
	t = ask_as(MALLORY, alice);
	assert_int_equal(t.clients, 1);
	assert_false(t.found);
	assert_int_equal(t.port, 7002);
	t = ask_as(ALICE + 100, alice);
	assert_int_equal(t.rc, 0);
	assert_int_equal(t.clients, 0);
	assert_int_equal(t.ids, 0);
	stop(alice);
	stop(mallory);
	broker_client_close(root);
}

static void a_users_broker_tells_its_user_and_root(void **state)
{
	struct told t;
	pid_t alice;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	alice = start(ALICE, 7003);
	t = ask_as(ALICE, alice);
	assert_true(t.found);
	t = ask_as(0, alice);
	assert_int_equal(t.rc, 0);
	assert_true(t.found);
	assert_int_equal(t.port, 7003);
	assert_int_equal(t.broker_uid, ALICE);
	assert_int_equal(ask_as(MALLORY, alice).rc, -EPERM);
	stop(alice);
}

static void more_clients_than_a_message_has_room_for_are_told_once_each(void **state)
{
	struct broker_client *own[2 * BROKER_LIST_MAX + 1];
	struct broker_listing l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		own[i] = bed_client();
	for (size_t n = ARRAY_SIZE(own); n; n--) {
		if (n % BROKER_LIST_MAX <= 1) {
			assert_int_equal(broker_list(&l, err, sizeof(err)), 0);
			assert_int_equal(l.client_count, n);
			for (size_t i = 1; i < n; i++)
				assert_true(l.clients[i].nr > l.clients[i - 1].nr);
			broker_listing_free(&l);
		}
		broker_client_close(own[n - 1]);
		if (n % BROKER_LIST_MAX <= 2) /* the broker sees it in its turn */
			assert_true(eventually(5000, ask_as(geteuid(), 0).clients == n - 1));
	}
}

/* ---- who follows no rule --------------------------------------------------------------------- */

/* The broker's answer to these bytes; 0: it hung up. */
static ssize_t answer_to(int fd, const void *req, size_t len, void *resp, size_t room)
{
	struct timeval soon = {.tv_sec = 10};
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	assert_int_equal(send(fd, req, len, MSG_NOSIGNAL), len);
	n = recv(fd, resp, room, 0);
	return n < 0 && errno == ECONNRESET ? 0 : n;
}

static void who_is_not_greeted_is_told_nothing(void **state)
{
	struct broker_client *own = bed_client();
	struct broker_list req = {.msg.type = BROKER_LIST_CLIENTS};
	struct broker_list_clients r;

	(void)state;
	for (; req.msg.type <= BROKER_LIST_IDS; req.msg.type++) {
		int fd = bed_raw_connection();

		assert_int_equal(answer_to(fd, &req, sizeof(req), &r, sizeof(r)), 0);
		close(fd);
	}
	broker_client_close(own);
}

/* Whom the broker refuses and who goes on asking. */
static int refused_asks(void)
{
	struct broker_hello hello = {.msg.type = BROKER_HELLO, .version = BROKER_PROTO_VERSION};
	struct broker_list req = {.msg.type = BROKER_LIST_IDS};
	struct broker_list_ids r;
	int fd = bed_raw_connection();

	if (setgid(MALLORY) < 0 || setuid(MALLORY) < 0)
		return 1;
	close(fd);
	fd = bed_raw_connection();
	(void)!send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
	(void)!send(fd, &req, sizeof(req), MSG_NOSIGNAL);
	if (recv(fd, &hello, sizeof(hello), 0) != sizeof(hello) || hello.msg.error != -EPERM)
		return 2;
	return recv(fd, &r, sizeof(r), 0) > 0 ? 3 : 0;
}

static void who_is_refused_is_told_nothing(void **state)
{
	pid_t alice, pid;
	int status;

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	alice = start(ALICE, 7004);
	pid = fork();
	if (pid == 0)
		_exit(refused_asks());
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	stop(alice);
}

static int greeted(void)
{
	struct broker_hello hello = {.msg.type = BROKER_HELLO, .version = BROKER_PROTO_VERSION};
	int fd = bed_raw_connection();

	if (exchange(fd, &hello, sizeof(hello), -1, &hello, sizeof(hello), NULL, NULL) ||
	    hello.msg.error)
		_exit(100);
	return fd;
}

static void garbage_is_an_error_and_no_more(void **state)
{
	struct broker_client *own = bed_client();
	struct {
		struct broker_list list;
		uint8_t more[64];
	} req = {.list.msg.type = BROKER_LIST_CLIENTS};
	struct broker_list_clients clients;
	struct broker_list_ids ids;
	struct broker_msg *msg = &clients.msg;
	int fd = greeted();

	(void)state;
	for (; req.list.msg.type <= BROKER_LIST_IDS; req.list.msg.type++)
		for (size_t len = sizeof(*msg); len <= sizeof(req); len++) {
			if (len == sizeof(req.list))
				continue;
			memset(req.more, 0xff, sizeof(req.more));
			assert_int_equal(answer_to(fd, &req, len, &clients, sizeof(clients)),
					 sizeof(*msg));
			assert_int_equal(msg->error, -EINVAL);
		}
	req.list = (struct broker_list){{.type = BROKER_LIST_CLIENTS}, .from = UINT64_MAX};
	assert_int_equal(answer_to(fd, &req, sizeof(req.list), &clients, sizeof(clients)),
			 sizeof(clients));
	assert_int_equal(clients.msg.error, 0);
	assert_int_equal(clients.count, 0);
	assert_int_equal(clients.next, 0);
	req.list = (struct broker_list){{.type = BROKER_LIST_IDS}, .from = UINT64_MAX - 1};
	assert_int_equal(answer_to(fd, &req, sizeof(req.list), &ids, sizeof(ids)), sizeof(ids));
	assert_int_equal(ids.msg.error, 0);
	assert_int_equal(ids.count, 0);
	assert_int_equal(ids.next, 0);
	close(fd);
	broker_client_close(own);
}

/* Has asked a hundred times when it closes done, and goes on. */
static void loop(int done)
{
	struct broker_list req = {.msg.type = BROKER_LIST_IDS};
	struct broker_list_ids ids;
	int fd = greeted();

	become(geteuid());
	for (unsigned n = 0;; n++) {
		if (exchange(fd, &req, sizeof(req), -1, &ids, sizeof(ids), NULL, NULL))
			_exit(0);
		req.from = ids.next;
		if (n == 100)
			close(done);
	}
}

static void who_asks_in_a_loop_holds_up_nobody(void **state)
{
	struct broker_client *own = bed_client();
	struct broker_cm_create_id create = {.msg.type = BROKER_CM_CREATE_ID, .ps = CM_PS_TCP}, id;
	uint64_t begun, longest = 0, all = 0;
	struct broker_listing l;
	pid_t pid[LOOPS];
	int fd, done[2];
	char c;

	(void)state;
	assert_int_equal(broker_client_cm_channel(own, &create.channel, &fd), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(call(own, &create, sizeof(create), &id, sizeof(id)), 0);
	assert_int_equal(pipe(done), 0);
	for (int i = 0; i < LOOPS; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			loop(done[1]);
	}
	close(done[1]);
	assert_int_equal(read(done[0], &c, 1), 0); /* all have begun */
	close(done[0]);
	for (int i = 0; i < 100; i++) {
		struct broker_devices devices;

		begun = time_now_ns();
		assert_int_equal(broker_client_devices(own, &devices), 0);
		begun = time_now_ns() - begun;
		longest = max_of(longest, begun);
		all += begun;
	}
	print_message("a request took %.2f ms, at most %.2f ms\n", (double)all / 100e6,
		      (double)longest / 1e6);
	assert_true(all / 100 < 20 * NSEC_PER_MSEC);
	assert_int_equal(broker_list(&l, err, sizeof(err)), 0);
	assert_int_equal(l.id_count, MANY);
	assert_int_equal(l.client_count, 1 + LOOPS);
	broker_listing_free(&l);
	for (int i = 0; i < LOOPS; i++)
		stop(pid[i]);
	close(fd);
	broker_client_close(own);
}

enum lie {
	MORE_THAN_ROOM,
	FOR_EVER,
	NOBODYS_ID,
	NO_SUCH_STATE,
	MANY_DEVICES,
	AN_OLDER_ONE,
	ANOTHER_VERSION,
	NONE,
	LIES
};

/* A broker of somebody's who means no good, whom root asks. */
static void be_hostile(enum lie lie, int ready)
{
	struct sockaddr_un a;
	socklen_t len = name_address(&a);
	int l = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	uint64_t n = 0;

	become(MALLORY);
	if (bind(l, (struct sockaddr *)&a, len) < 0 || listen(l, 8) < 0)
		_exit(1);
	close(ready);
	for (;;) {
		int fd = accept(l, NULL, NULL);
		union {
			struct broker_msg msg;
			struct broker_hello hello;
			struct broker_list_clients clients;
			struct broker_list_ids ids;
			struct broker_devices devices;
		} r;

		while (memset(&r, 0, sizeof(r)), recv(fd, &r, sizeof(r), 0) > 0) {
			size_t bytes = sizeof(r.hello);

			if (r.msg.type == BROKER_HELLO && lie == ANOTHER_VERSION)
				r.hello.version++;
			if (r.msg.type == BROKER_LIST_CLIENTS && lie == AN_OLDER_ONE) {
				r.msg.error = -EOPNOTSUPP;
				(void)!send(fd, &r, sizeof(r.msg), MSG_NOSIGNAL);
				continue;
			}
			if (r.msg.type == BROKER_LIST_CLIENTS) {
				bytes = sizeof(r.clients);
				r.clients.count = lie == MORE_THAN_ROOM ? UINT32_MAX : 1;
				r.clients.next = lie == FOR_EVER ? 1 : 0; /* for ever the same */
				r.clients.v[0].nr = lie == FOR_EVER ? ++n : 1;
			} else if (r.msg.type == BROKER_LIST_IDS) {
				bytes = sizeof(r.ids);
				r.ids.count = 1;
				r.ids.next = 0;
				r.ids.v[0].client = lie == NOBODYS_ID ? 77 : 1;
				r.ids.v[0].state = lie == NO_SUCH_STATE ? 1000 : 0;
			} else if (r.msg.type == BROKER_DEVICES) {
				bytes = sizeof(r.devices);
				memset(r.devices.dev, 'x', sizeof(r.devices.dev));
				r.devices.count = lie == MANY_DEVICES ? 1000 : 32;
			}
			(void)!send(fd, &r, bytes, MSG_NOSIGNAL);
		}
		close(fd);
	}
}

static void what_a_strangers_broker_says_is_within_bounds(void **state)
{
	static const int expected[LIES] = {
		[MORE_THAN_ROOM] = -EPROTO,   [FOR_EVER] = -EPROTO,
		[NO_SUCH_STATE] = -EPROTO,    [MANY_DEVICES] = -EPROTO,
		[AN_OLDER_ONE] = -EOPNOTSUPP, [ANOTHER_VERSION] = -EPROTO,
	};

	(void)state;
	if (geteuid())
		SKIP_CASE("only root can be other users");
	for (enum lie lie = 0; lie < LIES; lie++) {
		struct broker_listing l;
		int ready[2];
		pid_t pid;
		char c;

		assert_int_equal(pipe(ready), 0);
		pid = fork();
		if (pid == 0) {
			close(ready[0]);
			be_hostile(lie, ready[1]);
		}
		close(ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 0);
		close(ready[0]);
		assert_int_equal(broker_list(&l, err, sizeof(err)), expected[lie]);
		assert_int_equal(geteuid(), 0);
		if (lie == AN_OLDER_ONE)
			assert_non_null(strstr(err, "older weft"));
		if (lie == ANOTHER_VERSION)
			assert_non_null(strstr(err, "another version"));
		if (!expected[lie]) {
			assert_int_equal(l.client_count, 1);
			assert_int_equal(l.id_count, lie == NOBODYS_ID ? 0 : 1);
			assert_int_equal(strlen(l.devices.dev[0].name), 63);
			broker_listing_free(&l);
		}
		stop(pid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(no_broker_is_started_to_be_asked, bed_fresh),
		cmocka_unit_test_setup(a_process_is_told_of_until_it_has_gone, bed_fresh),
		cmocka_unit_test_setup(a_user_is_told_of_its_own_processes_and_root_of_all,
				       bed_fresh),
		cmocka_unit_test_setup(a_users_broker_tells_its_user_and_root, bed_fresh),
		cmocka_unit_test_setup(more_clients_than_a_message_has_room_for_are_told_once_each,
				       bed_fresh),
		cmocka_unit_test_setup(who_is_not_greeted_is_told_nothing, bed_fresh),
		cmocka_unit_test_setup(who_is_refused_is_told_nothing, bed_fresh),
		cmocka_unit_test_setup(garbage_is_an_error_and_no_more, bed_fresh),
		cmocka_unit_test_setup(who_asks_in_a_loop_holds_up_nobody, bed_fresh),
		cmocka_unit_test_setup(what_a_strangers_broker_says_is_within_bounds, bed_fresh),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
