/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Identifiers between threads, as the programs of the field have them: one thread takes the events
 * of a channel while others connect, accept, disconnect and destroy. The sanitizers watch.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7650, ROUNDS = 80, LOOK_MS = 5, WAIT_S = 60, ASKERS = 2, ASKED = 6 };
enum { FORKS = 30, CHILDREN = 10, MAKERS = 4, BROKERS = 3 };

static struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

static struct sockaddr *here(uint16_t port)
{
	static __thread struct sockaddr_in a;

	a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return (struct sockaddr *)&a;
}

static int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = id->qp_type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	return rdma_create_qp(id, NULL, &a);
}

/* Another time in each round, up to what a connection takes. */
static void wait_a_little(int round)
{
	nanosleep(&(struct timespec){.tv_nsec = round * 37 % 60 * 50000}, NULL);
}

static void wait_for(sem_t *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	assert_int_equal(sem_timedwait(s, &until), 0);
}

/* ---- threads that take the events of a channel ----------------------------------------------- */

struct taker {
	struct rdma_event_channel *channel;
	void (*handle)(struct rdma_cm_event *); /* acknowledges it */
	pthread_t threads[2];
	int count;
	atomic_bool stop;
};

static void *take(void *arg)
{
	struct taker *t = arg;
	struct pollfd p = {.fd = t->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	while (!t->stop)
		if (poll(&p, 1, LOOK_MS) > 0 && !rdma_get_cm_event(t->channel, &ev))
			t->handle(ev);
	return NULL;
}

static void taker_start(struct taker *t, int count, void (*handle)(struct rdma_cm_event *))
{
	*t = (struct taker){.channel = rdma_create_event_channel(), .handle = handle};
	assert_non_null(t->channel);
	assert_int_equal(fcntl(t->channel->fd, F_SETFL, O_NONBLOCK), 0);
	for (; t->count < count; t->count++)
		assert_int_equal(pthread_create(&t->threads[t->count], NULL, take, t), 0);
}

static void taker_stop(struct taker *t)
{
	t->stop = true;
	for (int i = 0; i < t->count; i++)
		pthread_join(t->threads[i], NULL);
}

static struct rdma_cm_id *listen_for(struct taker *t)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(t->channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, here(PORT)), 0);
	assert_int_equal(rdma_listen(id, 64), 0);
	return id;
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static bool is_end(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED ||
	       type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_CONNECT_ERROR;
}

/* The passive side of one thread: takes whoever comes, until he goes. */
static struct taker server;
static atomic_int served;

static void serve(struct rdma_cm_event *ev)
{
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;

	rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		served++;
		if (!make_qp(id) && !rdma_accept(id, &param))
			return;
	} else if (!is_end(type)) {
		return;
	}
	end(id);
	served--;
}

/* ---- the active side ------------------------------------------------------------------------- */

struct conn { /* the context of its identifier */
	struct rdma_cm_id *id;
	sem_t resolved, established, ended;
	bool destroyed_by_taker;
};

static struct taker client;

/* Up to its resolved route. True: the event was of that. */
static bool resolving(struct rdma_cm_event *ev)
{
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;
	struct conn *c = id->context;

	if (type != RDMA_CM_EVENT_ADDR_RESOLVED && type != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return false;
	rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_ROUTE_RESOLVED)
		sem_post(&c->resolved);
	else if (rdma_resolve_route(id, 1000))
		abort();
	return true;
}

static void conn_open(struct conn *c)
{
	*c = (struct conn){0};
	sem_init(&c->resolved, 0, 0);
	sem_init(&c->established, 0, 0);
	sem_init(&c->ended, 0, 0);
	assert_int_equal(rdma_create_id(client.channel, &c->id, c, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(c->id, NULL, here(PORT), 1000), 0);
	wait_for(&c->resolved);
	assert_int_equal(make_qp(c->id), 0);
}

static void all_are_served(void)
{
	for (int ms = 0; served && ms < WAIT_S * 1000; ms++)
		usleep(1000);
	assert_int_equal(served, 0);
}

/* ---- a queue pair that goes ------------------------------------------------------------------ */

static void tell_any(struct rdma_cm_event *ev)
{
	struct conn *c = ev->id->context;

	if (resolving(ev))
		return;
	sem_post(&c->ended);
	rdma_ack_cm_event(ev);
}

static void a_queue_pair_goes_while_its_connection_is_made(void **state)
{
	struct rdma_cm_id *listener;
	struct conn c;

	(void)state;
	taker_start(&server, 1, serve);
	taker_start(&client, 1, tell_any);
	listener = listen_for(&server);
	for (int i = 0; i < ROUNDS; i++) {
		conn_open(&c);
		assert_int_equal(rdma_connect(c.id, &param), 0);
		wait_a_little(i);
		rdma_destroy_qp(c.id);
		wait_for(&c.ended); /* be it established or not */
		assert_int_equal(rdma_destroy_id(c.id), 0);
	}
	all_are_served();
	taker_stop(&client);
	taker_stop(&server);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(server.channel);
}

/* ---- an identifier that goes with its event -------------------------------------------------- */

static void destroy_at_the_end(struct rdma_cm_event *ev)
{
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;
	struct conn *c = id->context;

	if (resolving(ev))
		return;
	rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_ESTABLISHED && !c->destroyed_by_taker) {
		sem_post(&c->established);
		return;
	}
	if (type != RDMA_CM_EVENT_ESTABLISHED && !is_end(type))
		return;
	end(id);
	sem_post(&c->ended);
}

/* The call that had it come may not be back by then. */
static void an_identifier_goes_as_soon_as_its_event_has_come(void **state)
{
	struct rdma_cm_id *listener;
	struct conn c;

	(void)state;
	taker_start(&server, 1, serve);
	taker_start(&client, 1, destroy_at_the_end);
	listener = listen_for(&server);
	for (int i = 0; i < ROUNDS; i++) {
		conn_open(&c);
		c.destroyed_by_taker = i % 2;
		assert_int_equal(rdma_connect(c.id, &param), 0);
		if (!c.destroyed_by_taker) {
			wait_for(&c.established);
			assert_int_equal(rdma_disconnect(c.id), 0);
		}
		wait_for(&c.ended);
	}
	all_are_served();
	taker_stop(&client);
	taker_stop(&server);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(server.channel);
}

/* ---- requests that a worker has -------------------------------------------------------------- */

static int to_worker[2];

static void hand_over(struct rdma_cm_event *ev)
{
	struct rdma_cm_id *id = ev->id;
	bool request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;

	rdma_ack_cm_event(ev);
	if (request && write(to_worker[1], &id, sizeof(id)) != sizeof(id))
		abort();
}

/* Two threads take what comes of these connections meanwhile. */
static void *work(void *arg)
{
	struct rdma_cm_id *id;

	(void)arg;
	for (int i = 0; read(to_worker[0], &id, sizeof(id)) == sizeof(id); i++) {
		if (!make_qp(id) && !rdma_accept(id, &param)) {
			wait_a_little(i);
			if (i % 2)
				rdma_disconnect(id);
		}
		rdma_destroy_qp(id);
		if (rdma_destroy_id(id))
			abort();
	}
	return NULL;
}

static void a_worker_has_the_requests_that_others_see_end(void **state)
{
	struct rdma_cm_id *listener;
	pthread_t worker;
	struct conn c;

	(void)state;
	assert_int_equal(pipe(to_worker), 0);
	assert_int_equal(pthread_create(&worker, NULL, work, NULL), 0);
	taker_start(&server, 2, hand_over);
	taker_start(&client, 2, tell_any);
	listener = listen_for(&server);
	for (int i = 0; i < ROUNDS; i++) {
		conn_open(&c);
		assert_int_equal(rdma_connect(c.id, &param), 0);
		wait_a_little(i * 7);
		if (i % 3)
			rdma_disconnect(c.id);
		rdma_destroy_qp(c.id);
		assert_int_equal(rdma_destroy_id(c.id), 0);
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
	taker_stop(&server);
	close(to_worker[1]);
	pthread_join(worker, NULL);
	close(to_worker[0]);
	taker_stop(&client);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(server.channel);
}

/* ---- requests that several ask for ----------------------------------------------------------- */

/* More than a queue pair may have: each fails, and the listener keeps its event. */
static void *ask_in_vain(void *listener)
{
	struct rdma_cm_id *id;
	long got = 0;

	for (int i = 0; i < ASKED; i++)
		got += !rdma_get_request(listener, &id);
	return (void *)got;
}

static void several_ask_one_listener_for_requests(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = UINT32_MAX}};
	struct rdma_cm_id *listener;
	struct conn c[ASKERS * ASKED];
	pthread_t t[ASKERS];
	void *got;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7650", &hints, &res), 0);
	assert_int_equal(rdma_create_ep(&listener, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(listener, ASKERS * ASKED), 0);
	taker_start(&client, 1, tell_any);
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, ask_in_vain, listener), 0);
	for (int i = 0; i < ASKERS * ASKED; i++) {
		conn_open(&c[i]);
		assert_int_equal(rdma_connect(c[i].id, &param), 0);
	}
	for (int i = 0; i < ASKERS; i++) {
		assert_int_equal(pthread_join(t[i], &got), 0);
		assert_null(got);
	}
	alarm(WAIT_S); /* no event is lost, or this waits for ever */
	rdma_destroy_ep(listener);
	alarm(0);
	for (int i = 0; i < ASKERS * ASKED; i++)
		end(c[i].id);
	taker_stop(&client);
	rdma_destroy_event_channel(client.channel);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void only_acknowledge(struct rdma_cm_event *ev)
{
	rdma_ack_cm_event(ev);
}

static void a_group_is_left_while_it_is_joined(void **state)
{
	struct sockaddr_in g = {.sin_family = AF_INET};
	union ibv_gid mgid = {.raw = {[10] = 0xff, 0xff, 239, 7, 7, 9}};
	struct rdma_cm_id *id;

	(void)state;
	g.sin_addr.s_addr = htonl(0xef070709);
	taker_start(&client, 1, only_acknowledge);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(rdma_create_id(client.channel, &id, NULL, RDMA_PS_UDP), 0);
		assert_int_equal(rdma_bind_addr(id, here(PORT)), 0);
		assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, NULL), 0);
		assert_int_equal(make_qp(id), 0);
		wait_a_little(i);
		assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
		assert_int_not_equal(ibv_detach_mcast(id->qp, &mgid, 0), 0);
		end(id);
	}
	taker_stop(&client);
	rdma_destroy_event_channel(client.channel);
}

/* ---- children -------------------------------------------------------------------------------- */

static void *create_and_destroy(void *stop)
{
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *id;

	while (!*(atomic_bool *)stop)
		if (rdma_create_id(c, &id, NULL, RDMA_PS_TCP) || rdma_destroy_id(id))
			abort();
	rdma_destroy_event_channel(c);
	return NULL;
}

static int be_a_child(void)
{
	struct rdma_event_channel *c;
	struct rdma_cm_id *id;

	alarm(WAIT_S / 6);
	c = rdma_create_event_channel();
	return !c || rdma_create_id(c, &id, NULL, RDMA_PS_TCP) || rdma_destroy_id(id);
}

static void a_child_has_its_own_whatever_its_parent_was_doing(void **state)
{
	atomic_bool stop = false;
	pthread_t t[MAKERS];

	(void)state;
	for (int i = 0; i < MAKERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, create_and_destroy, &stop), 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t pids[CHILDREN];
		int status;

		for (int k = 0; k < CHILDREN; k++) {
			pids[k] = fork();
			if (pids[k] == 0)
				_exit(be_a_child());
		}
		for (int k = 0; k < CHILDREN; k++) {
			assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
			assert_int_equal(status, 0);
		}
	}
	stop = true;
	for (int i = 0; i < MAKERS; i++)
		pthread_join(t[i], NULL);
}

/* ---- the broker's start ---------------------------------------------------------------------- */

static void *nothing(void *arg)
{
	return arg;
}

static void *make_threads(void *stop)
{
	pthread_t t;

	while (!*(atomic_bool *)stop)
		if (pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL))
			abort();
	return NULL;
}

/* Its exit status. */
static int start_among_threads(void)
{
	struct rdma_event_channel *c;
	atomic_bool stop = false;
	pthread_t t[MAKERS];

	alarm(WAIT_S / 3);
	for (int i = 0; i < MAKERS; i++)
		if (pthread_create(&t[i], NULL, make_threads, &stop))
			return 1;
	c = rdma_create_event_channel();
	stop = true;
	for (int i = 0; i < MAKERS; i++)
		pthread_join(t[i], NULL);
	return !c;
}

static bool broker_is_there(void)
{
	char line[256];
	bool found = false;
	FILE *f = fopen("/proc/self/net/unix", "re");

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "@weft-broker");
	fclose(f);
	return found;
}

/* First of all, while there is none. Of a process with threads and a sanitizer, a copy that is to
 * become the broker must not run into what only the other threads could end. */
static void a_process_with_threads_starts_the_broker(void **state)
{
	(void)state;
	for (int i = 0; i < BROKERS; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(start_among_threads());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		for (int ms = 0; broker_is_there(); ms += 10) {
			assert_true(ms < 20000);
			usleep(10000);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_with_threads_starts_the_broker),
		cmocka_unit_test(a_queue_pair_goes_while_its_connection_is_made),
		cmocka_unit_test(an_identifier_goes_as_soon_as_its_event_has_come),
		cmocka_unit_test(a_worker_has_the_requests_that_others_see_end),
		cmocka_unit_test(several_ask_one_listener_for_requests),
		cmocka_unit_test(a_group_is_left_while_it_is_joined),
		cmocka_unit_test(a_child_has_its_own_whatever_its_parent_was_doing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
