/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The threads of weft serve: hosts in threads of their own come, work and go, in order or without a
 * word, while the first thread takes namespaces and ports away and gives them again.
 * Argument: tcp, rdma or tcp-tls.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "cli/serve_threads.h"
#include "heap_env.h"
#include "host_requests.h"
#include "netns.h"
#include "plain_host.h"
#include "turn_until.h"

#define NQN	"nqn.2026-11.io.example:disk"
#define HOSTNQN "nqn.2026-11.io.example:host" /* plain_host()'s */

enum { THREADS = 3, HOSTS = 4, IO_QUEUES = 3, IO_ENTRIES = 8, BLOCKS = 64, LEN = 8192 };

static const char *transport;
static bool tls;
static struct auth_psk psk;
static struct nvme_uri address = {.host = "127.0.0.1", .port = "4420"};

static struct bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns[2];
	struct store *stores[2];
	struct store_engine *engine;
	struct shares shares;
	struct serve_transports transports;
	struct serve_threads threads;
	unsigned gone;
	uint64_t reads; /* of the threads, when they have ended */
} bed;

#define PATIENCE (30 * NSEC_PER_SEC)

/* --- the first thread ------------------------------------------------------------------------- */

static void turn(void)
{
	uint64_t now = time_now_ns();
	bool any = target_group_process(&bed.target.group, now);

	if (now >= target_next_deadline(&bed.target))
		target_tick(&bed.target, now);
	any |= serve_transports_process(&bed.transports, now, true);
	any |= store_engine_reap(bed.engine) != 0;
	if (!any)
		sched_yield();
}

static void turn_for(uint64_t ns)
{
	for (uint64_t end = time_now_ns() + ns; time_now_ns() < end;)
		turn();
}

static const struct auth_key tls_key = {.hash = NVMF_AUTH_SHA256, .len = 32, .key = "secret"};

static bool find_tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = tls_key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

static struct target_port *port(void)
{
	return list_entry(bed.target.ports.next, struct target_port, link);
}

static void listen_again(void)
{
	char why[256];

	if (serve_transports_listen(&bed.transports, &bed.target, &bed.shares, &address, why,
				    sizeof(why)) != 0)
		fail_msg("%s", why);
	target_port_secure(&bed.target, port(), tls ? TARGET_TLS_REQUIRED : TARGET_TLS_NONE);
}

static void set_up(void)
{
	char why[256] = "";

	memset(&bed, 0, sizeof(bed));
	strcpy(address.transport, transport);
	target_init(&bed.target, &heap_env, time_now_ns());
	bed.target.env.tls_key = find_tls_key;
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &bed.engine), 0);
	assert_int_equal(shares_init(&bed.shares, 4 << 20), 0);
	serve_transports_init(&bed.transports, epoll_create1(EPOLL_CLOEXEC));
	if (serve_threads_init(&bed.threads, THREADS, &bed.target, bed.engine, &bed.transports,
			       4 << 20, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(store_mem_create(HOSTS * BLOCKS * LEN, 512, 0, &bed.stores[i]), 0);
		assert_int_equal(store_share(bed.stores[i], bed.threads.engines, 1 + THREADS), 0);
		bed.ns[i] =
			(struct target_ns){.nsid = i + 1, .store = bed.stores[i], .lba_shift = 9};
		assert_int_equal(target_ns_add(&bed.subsys, &bed.ns[i]), 0);
	}
	listen_again();
	assert_int_equal(serve_threads_start(&bed.threads, why, sizeof(why)), 0);
}

static void tear_down(void)
{
	serve_transports_shutdown(&bed.transports);
	serve_threads_shutdown(&bed.threads);
	turn_until(serve_transports_idle(&bed.transports) && serve_threads_idle(&bed.threads) &&
		   target_idle(&bed.target));
	assert_true(serve_threads_join(&bed.threads));
	for (unsigned i = 0; i < THREADS; i++) {
		bed.reads += bed.threads.v[i].group.counters->reads;
		assert_int_equal(bed.threads.v[i].shares.pool.used, 0);
		assert_int_equal(bed.threads.v[i].shares.queue_count, 0);
	}
	serve_threads_fini(&bed.threads);
	serve_transports_destroy(&bed.transports);
	assert_int_equal(bed.shares.pool.used, 0);
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.stores[0]);
	store_destroy(bed.stores[1]);
	serve_threads_free(&bed.threads);
	store_engine_destroy(bed.engine);
	close(bed.transports.epoll_fd);
}

/* --- hosts ------------------------------------------------------------------------------------ */

static _Atomic bool over;

struct worker {
	pthread_t thread;
	unsigned index;
	struct transport_host *t;
	struct host host;
	struct host_queue queues[1 + IO_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * IO_ENTRIES];
	struct {
		uint8_t scratch[HOST_SCRATCH_LEN];
		uint8_t out[IO_QUEUES][LEN], in[IO_QUEUES][LEN];
	} * mem;
	unsigned round, connected;
	_Atomic unsigned verified;
};

static void host_turn(struct worker *w)
{
	struct pollfd fds[TRANSPORT_HOST_FDS];
	unsigned n = w->t->ops->pollfds(w->t, fds);
	uint64_t now = time_now_ns();

	poll(fds, n, 1);
	w->t->ops->polled(w->t, fds, n);
	w->t->ops->process(w->t, now, true);
	if (w->host.state != HOST_IDLE && now >= host_next_deadline(&w->host))
		host_tick(&w->host, now);
}

static void count_done(struct host_request *req, uint64_t now_ns)
{
	(void)now_ns;
	++*(unsigned *)req->arg;
}

/* A command on each queue at once; how many succeeded. */
static unsigned on_all(struct worker *w, bool write, uint32_t nsid)
{
	struct host_request reqs[IO_QUEUES] = {0};
	unsigned done = 0, sent = 0, fine = 0;
	uint64_t end = time_now_ns() + 40 * NSEC_PER_SEC;

	for (unsigned q = 0; q < IO_QUEUES; q++) {
		uint64_t slba = (w->index * BLOCKS + (w->round + q) % BLOCKS) * (LEN / 512);

		if (write)
			host_prepare_write(&reqs[q], nsid, slba, LEN / 512, w->mem->out[q], LEN,
					   false);
		else
			host_prepare_read(&reqs[q], nsid, slba, LEN / 512, w->mem->in[q], LEN);
		reqs[q].done = count_done;
		reqs[q].arg = &done;
		sent += host_submit(&w->host, (uint16_t)(1 + q), &reqs[q], time_now_ns()) == 0;
	}
	while (done < sent && time_now_ns() < end)
		host_turn(w);
	assert(done == sent); /* each has an answer, or its connection has ended */
	for (unsigned q = 0; q < IO_QUEUES; q++)
		fine += sent == IO_QUEUES && !reqs[q].error && !reqs[q].cqe.status;
	return fine;
}

static void work(struct worker *w)
{
	uint32_t nsid = 1 + w->round % 2;

	for (unsigned i = 0; i < 20 && w->host.state == HOST_LIVE && !over; i++, w->round++) {
		for (unsigned q = 0; q < IO_QUEUES; q++)
			memset(w->mem->out[q], (int)(w->round + q + 16 * w->index), LEN);
		if (on_all(w, true, nsid) != IO_QUEUES)
			continue;
		if (on_all(w, false, nsid) != IO_QUEUES)
			continue;
		assert(memcmp(w->mem->in, w->mem->out, sizeof(w->mem->in)) == 0);
		w->verified++;
	}
}

static void *come_and_go(void *arg)
{
	struct worker *w = arg;
	const struct transport_host_config where = {.host = "127.0.0.1",
						    .port = "4420",
						    .io_queues = IO_QUEUES,
						    .io_entries = IO_ENTRIES,
						    .resolve_timeout_ms = 2000,
						    .tls = tls ? &psk : NULL};
	struct host_config config = plain_host(NQN, IO_QUEUES, IO_ENTRIES);
	const struct nvmf_transport *kind = transport_at(transport_index(transport));
	char why[256];

	w->mem = aligned_alloc(4096, (sizeof(*w->mem) + 4095) & ~4095ul);
	config.hostid[0] = (uint8_t)w->index;
	for (unsigned n = 0; !over; n++) {
		uint64_t end = time_now_ns() + 20 * NSEC_PER_SEC;

		w->t = kind->host_create(&where, why, sizeof(why));
		assert(w->t);
		w->t->ops->attach(w->t, &w->host);
		assert(w->t->ops->add_memory(w->t, w->mem, sizeof(*w->mem)) == 0);
		assert(host_init(&w->host, &config, w->t->ops->queues, w->t, w->queues, w->places,
				 w->mem->scratch) == 0);
		host_start(&w->host, time_now_ns());
		while (w->host.state != HOST_LIVE && w->host.state != HOST_FAILED &&
		       w->host.state != HOST_IDLE && time_now_ns() < end)
			host_turn(w);
		assert(time_now_ns() < end);
		w->connected += w->host.state == HOST_LIVE;
		work(w);
		if (n % 2 && w->host.state == HOST_LIVE) { /* else it is gone without a word */
			host_shutdown(&w->host, time_now_ns());
			while (w->host.state == HOST_SHUTDOWN ||
			       w->host.state == HOST_SHUTDOWN_WAIT)
				host_turn(w);
		}
		w->t->ops->destroy(w->t);
	}
	free(w->mem);
	return NULL;
}

/* --- both ------------------------------------------------------------------------------------- */

static void ns_gone(struct target_ns *ns)
{
	assert_ptr_equal(ns, &bed.ns[1]);
	bed.gone++;
}

static void disturb(unsigned round)
{
	static struct target_subsys *const none[1];
	struct target_port *p = port();
	struct transport_target *t = bed.transports.of[transport_index(transport)];
	unsigned before = bed.gone;

	target_ns_remove(&bed.subsys, &bed.ns[1], ns_gone);
	turn_until(bed.gone != before);
	turn_for(NSEC_PER_MSEC);
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns[1]), 0);
	target_ns_changed(&bed.ns[0], &bed.subsys);
	if (round % 4 == 1) {
		target_port_offer(&bed.target, p, none, 0);
		turn_for(NSEC_PER_MSEC);
		target_port_offer(&bed.target, p, NULL, 0);
	}
	if (round % 4 == 3) {
		t->ops->unlisten(t, p);
		turn_for(NSEC_PER_MSEC);
		listen_again();
	}
}

static bool all_have_worked(const struct worker workers[HOSTS])
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (!workers[i].verified)
			return false;
	return true;
}

static void hosts_come_and_go_while_all_else_does(void **state)
{
	static struct worker workers[HOSTS];
	unsigned verified = 0, connected = 0;
	uint64_t end;

	(void)state;
	set_up();
	over = false;
	end = time_now_ns() + 2 * NSEC_PER_SEC;
	for (unsigned i = 0; i < HOSTS; i++) {
		workers[i] = (struct worker){.index = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, come_and_go, &workers[i]),
				 0);
	}
	/* On a machine that has much else to do each of them has its time. */
	for (unsigned round = 0;
	     time_now_ns() < end || (!all_have_worked(workers) && time_now_ns() < end + PATIENCE);
	     round++) {
		disturb(round);
		turn_for(50 * NSEC_PER_MSEC);
	}
	over = true;
	/* Who wants to go in order needs us. */
	turn_for(100 * NSEC_PER_MSEC);
	for (unsigned i = 0; i < HOSTS; i++) {
		while (pthread_tryjoin_np(workers[i].thread, NULL) != 0)
			turn();
		connected += workers[i].connected;
		verified += workers[i].verified;
	}
	tear_down();
	print_message("%u connected, %u verified, %u removed\n", connected, verified, bed.gone);
	assert_true(bed.reads);
	assert_true(connected >= HOSTS);
	assert_true(verified);
}

/* Hosts that are there when it ends lose their connections, and nothing is left. */
static void the_end_finds_hosts_at_work(void **state)
{
	static struct worker workers[HOSTS];

	(void)state;
	set_up();
	over = false;
	for (unsigned i = 0; i < HOSTS; i++) {
		workers[i] = (struct worker){.index = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, come_and_go, &workers[i]),
				 0);
	}
	turn_for(300 * NSEC_PER_MSEC);
	tear_down();
	over = true;
	for (unsigned i = 0; i < HOSTS; i++)
		pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_come_and_go_while_all_else_does),
		cmocka_unit_test(the_end_finds_hosts_at_work),
	};

	transport = argc > 1 ? argv[1] : "tcp";
	tls = strcmp(transport, "tcp-tls") == 0;
	if (tls) {
		transport = "tcp";
		if (!auth_psk_derive(&tls_key, (struct auth_psk_way){.version = 1}, HOSTNQN, NQN,
				     &psk))
			return 1;
	}
	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
