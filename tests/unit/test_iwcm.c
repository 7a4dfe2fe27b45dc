/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection manager of iWARP over real sockets: two of its own, and peers that say too little,
 * too much, the wrong thing or nothing.
 */
#include "iwcm_bed.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

/* ---- its own like --------------------------------------------------------------------------- */

static void both_come_to_their_streams(void **state)
{
	struct iwcm_link *a = iwb_call(&iwb.at, "who calls"), *p = iwb_take();
	const struct iw_params answer = iwb_params("who answers");
	struct sockaddr_storage own, peer;
	struct told t;
	char c = 0;

	(void)state;
	assert_int_equal(iwcm_conn(p)->private_len, 9);
	assert_memory_equal(iwcm_conn(p)->private_data, "who calls", 9);
	assert_int_equal(iwcm_addresses(p, &own, &peer), 0);
	assert_memory_equal(&own, &iwb.at, sizeof(iwb.at));
	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), 0);
	for (int i = 0; i < 2; i++) {
		t = iwb_next_within(30);
		assert_int_equal(t.what, IWCM_ESTABLISHED);
		assert_int_equal(t.id, t.nr == iwcm_nr(a) ? CALLER : ACCEPTER);
	}
	assert_int_equal(iwcm_conn(a)->private_len, 11);
	assert_memory_equal(iwcm_conn(a)->private_data, "who answers", 11);
	assert_int_equal(iwb.begun[0].agreed.rtr, MPA_RTR_WRITE);
	assert_ptr_equal(iwb.begun[0].link, a);
	assert_ptr_equal(iwb.begun[1].link, p);
	assert_int_equal(send(iwb.begun[0].fd, "x", 1, 0), 1);
	assert_int_equal(poll(&(struct pollfd){.fd = iwb.begun[1].fd, .events = POLLIN}, 1, 10000),
			 1);
	assert_int_equal(recv(iwb.begun[1].fd, &c, 1, 0), 1);
	assert_int_equal(c, 'x');
	iwcm_ended(a);
	iwb_expect(CALLER, IWCM_ENDED, 0);
	iwcm_put(a);
	close(iwb.begun[0].fd);
	iwb_end(p, 1);
}

static void a_rejection_has_its_reasons_along(void **state)
{
	struct iwcm_link *a = iwb_call(&iwb.at, ""), *p = iwb_take();

	(void)state;
	assert_int_equal(iwcm_reject(p, "no", 2), 0);
	assert_int_equal(iwcm_reject(p, "no", 2), -EINVAL);
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	assert_int_equal(iwcm_conn(a)->private_len, 2);
	assert_memory_equal(iwcm_conn(a)->private_data, "no", 2);
	iwcm_put(a);
}

static void where_nobody_listens_one_is_rejected(void **state)
{
	struct iwcm_link *a;

	(void)state;
	iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	a = iwb_call(&iwb.at, "");
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

/* The port as it was, of another socket. */
static int bound_again(void)
{
	uint16_t port;
	int fd;

	assert_int_equal(iwcm_bind((struct sockaddr *)&iwb.at, sizeof(iwb.at), false, &fd, &port),
			 0);
	assert_int_equal(port, ntohs(iwb.at.sin_port));
	return fd;
}

/* As perftest does, for each of its connections. */
static void who_listens_anew_is_met(void **state)
{
	struct iwcm_link *a;

	(void)state;
	iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	a = iwb_call(&iwb.at, "");
	assert_int_equal(iwb_next_within(0).what, 0);
	usleep(20000);
	assert_int_equal(iwcm_listen(bound_again(), LISTENER, 0, &iwb.listener), 0);
	iwcm_put(iwb_take());
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

/* A listener of which TCP has accepted, and that ends after a while and has read nothing. */
static struct iwcm_link *call_unread(useconds_t for_us)
{
	struct iwcm_link *a;
	int fd;

	iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	fd = bound_again();
	assert_int_equal(listen(fd, 1), 0);
	a = iwb_call(&iwb.at, "");
	usleep(for_us);
	close(fd);
	return a;
}

static void who_was_not_read_calls_the_next(void **state)
{
	struct iwcm_link *a = call_unread(20000);

	(void)state;
	assert_int_equal(iwcm_listen(bound_again(), LISTENER, 0, &iwb.listener), 0);
	iwcm_put(iwb_take());
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

/* Who keeps it for longer has perhaps read it. */
static void who_was_heard_for_long_is_not_called_again(void **state)
{
	struct iwcm_link *a = call_unread(400000);

	(void)state;
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNRESET);
	iwcm_put(a);
}

static void who_is_brief_calls_once(void **state)
{
	const uint64_t begun_ns = time_now_ns();
	struct iwcm_link *a;

	(void)state;
	iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	a = iwb_call_from(htonl(INADDR_LOOPBACK), &iwb.at, "", false, true);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	assert_true(time_now_ns() - begun_ns < 100 * NSEC_PER_MSEC);
	iwcm_put(a);
}

/* Told once, though it was known before there was anything to wait for. */
static void where_no_way_leads_one_is_told_so(void **state)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {INADDR_BROADCAST}};
	struct iwcm_link *a = iwb_call_from(INADDR_ANY, &at, "", false, false);

	(void)state;
	iwb_expect(CALLER, IWCM_FAILED, -ENETUNREACH);
	assert_int_equal(iwb_next_within(1).what, 0);
	iwcm_put(a);
}

/* Who listens no more rejects what nobody has taken. */
static void requests_end_with_their_listener(void **state)
{
	struct iwcm_link *a = iwb_call(&iwb.at, "");
	struct told t = iwb_expect(LISTENER, IWCM_REQUEST, 0);

	(void)state;
	iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	assert_null(iwcm_take(LISTENER, t.nr));
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

static void what_goes_beyond_the_backlog_is_rejected(void **state)
{
	struct iwcm_link *a[4], *p;
	unsigned int rejected = 0, requests = 0;

	(void)state;
	iwcm_unlisten(iwb.listener);
	iwb_listen(3);
	for (int i = 0; i < 4; i++)
		a[i] = iwb_call(&iwb.at, "");
	for (int i = 0; i < 4; i++) {
		struct told t = iwb_next_within(30);

		rejected += t.what == IWCM_REJECTED && t.status == -ECONNREFUSED;
		requests += t.what == IWCM_REQUEST;
	}
	assert_int_equal(requests, 3);
	assert_int_equal(rejected, 1);
	for (int i = 0; i < 4; i++)
		iwcm_put(a[i]);
	/* Who was taken counts no more. */
	iwb.taken = 0;
	while (iwb.told[iwb.taken].what != IWCM_REQUEST)
		iwb.taken++;
	p = iwcm_take(LISTENER, iwb.told[iwb.taken].nr);
	assert_non_null(p);
	iwb.taken = iwb.n;
	a[0] = iwb_call(&iwb.at, "");
	iwb_expect(LISTENER, IWCM_REQUEST, 0);
	iwcm_put(a[0]);
	iwcm_put(p);
}

/* A queue pair that is not as it should be. */
static void a_stream_that_does_not_begin_is_told(void **state)
{
	struct iwcm_link *a = iwb_call(&iwb.at, ""), *p = iwb_take();
	const struct iw_params answer = iwb_params("");

	(void)state;
	iwb_set(&iwb.begin_error, -EINVAL);
	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), -EINVAL);
	iwcm_put(p);
	/* The answer was on its way before; and then there is its own queue pair. */
	iwb_expect(CALLER, IWCM_FAILED, -EINVAL);
	iwcm_put(a);
}

/* Nor is it promised, if that is known before. */
static void what_cannot_begin_is_not_accepted(void **state)
{
	struct iwcm_link *a = iwb_call(&iwb.at, ""), *p = iwb_take();
	const struct iw_params answer = iwb_params("");

	(void)state;
	iwb_set(&iwb.may_begin, -EINVAL);
	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), -EINVAL);
	assert_int_equal(iwcm_reject(p, "no", 2), 0);
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

static void what_could_not_be_told_is_told_again(void **state)
{
	struct iwcm_link *a, *p;

	(void)state;
	iwb_set(&iwb.refuse_tells, 5);
	a = iwb_call(&iwb.at, "");
	p = iwb_take();
	assert_int_equal(iwb_set(&iwb.refuse_tells, 0), 0);
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
}

/* CALLER's stream has begun, of which it is not told. */
static void has_begun(const struct iwcm_link *l)
{
	for (int i = 0; i < 3000; i++) {
		bool has;

		pthread_mutex_lock(&iwb.lock);
		has = iwb.begun[0].link == l;
		pthread_mutex_unlock(&iwb.lock);
		if (has)
			return;
		usleep(10000);
	}
	fail_msg("the stream does not begin");
}

/* Of which nobody wants to be told. */
static void end_unheard(struct iwcm_link *l, unsigned int qpn)
{
	iwcm_put(l);
	close(iwb.begun[qpn].fd);
	iwcm_ended(l);
}

/* It keeps no other waiting; not the stream of one that is to begin, either. */
static void who_can_be_told_nothing_keeps_nobody_waiting(void **state)
{
	const struct iw_params answer = iwb_params("");
	struct iwcm_link *rejected, *a, *p;

	(void)state;
	iwb_set(&iwb.refuse_to, CALLER);
	rejected = iwb_call(&iwb.at, "");
	iwcm_put(iwb_take());
	for (int i = 0; i < 2; i++) {
		a = iwb_call(&iwb.at, "");
		p = iwb_take();
		assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), 0);
		iwb_expect(ACCEPTER, IWCM_ESTABLISHED, 0);
		has_begun(a);
		end_unheard(p, 1);
		end_unheard(a, 0);
	}
	iwb_set(&iwb.refuse_to, 0);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(rejected);
}

static void the_end_is_told_after_the_beginning(void **state)
{
	const struct iw_params answer = iwb_params("");
	struct iwcm_link *a = iwb_call(&iwb.at, ""), *p = iwb_take();

	(void)state;
	iwb_set(&iwb.refuse_to, CALLER);
	iwb_set(&iwb.slow_begin_ms, 100);
	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), 0);
	iwb_set(&iwb.slow_begin_ms, 0);
	iwb_expect(ACCEPTER, IWCM_ESTABLISHED, 0);
	iwb_expect(ACCEPTER, IWCM_ENDED, 0);
	close(iwb.begun[1].fd);
	iwcm_put(p);
	has_begun(a);
	end_unheard(a, 0);
	iwb_set(&iwb.refuse_to, 0);
}

/* How often the manager has ended streams by itself, as soon as it has. */
static void assert_ended(int gracefully, int at_once)
{
	bool all = false;

	for (int i = 0; i < 3000 && !all; i++) {
		pthread_mutex_lock(&iwb.lock);
		all = iwb.ended == gracefully && iwb.ended_at_once == at_once;
		pthread_mutex_unlock(&iwb.lock);
		if (!all)
			usleep(10000);
	}
	assert_true(all);
}

/* The next request; the stream of that ends at once by itself. */
static void accept_it(void)
{
	const struct iw_params answer = iwb_params("");
	struct iwcm_link *p = iwb_take();
	struct told t;

	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), 0);
	close(iwb.begun[1].fd);
	iwcm_ended(p);
	do
		t = iwb_next_within(30);
	while (t.id != ACCEPTER || t.what != IWCM_ENDED);
	iwcm_put(p);
}

/* CALLER's stream begins, in the manager's thread, and is not done with that yet if slow. */
static struct iwcm_link *begins(bool slow)
{
	struct iwcm_link *a = iwb_call(&iwb.at, "");

	iwb_set(&iwb.slow_ms, slow ? 500 : 0);
	accept_it();
	has_begun(a);
	iwb_set(&iwb.slow_ms, 0);
	return a;
}

/* CALLER's. */
static void has_ended(struct iwcm_link *l)
{
	close(iwb.begun[0].fd);
	memset(&iwb.begun[0], 0, sizeof(iwb.begun[0]));
	iwcm_ended(l);
}
/* Nobody has it any more: before it is told that it stands, and while it begins. */
static void a_stream_does_not_outlive_its_identifier(void **state)
{
	struct iwcm_link *a;

	(void)state;
	iwb_set(&iwb.refuse_to, CALLER);
	for (int slow = 0; slow < 2; slow++) {
		a = begins(slow);
		iwcm_put(a);
		assert_ended(0, slow + 1);
		has_ended(a);
	}
	iwb_set(&iwb.refuse_to, 0);
}

static void who_disconnects_early_is_connected_no_longer_than_it_takes(void **state)
{
	struct iwcm_link *a;

	(void)state;
	iwb_set(&iwb.refuse_to, CALLER);
	for (int slow = 0; slow < 2; slow++) {
		a = begins(slow);
		assert_int_equal(iwcm_disconnect(a), 0);
		assert_ended(slow + 1, 0);
		/* What ends gracefully does so without its identifier. */
		iwcm_put(a);
		has_ended(a);
	}
	/* As soon as there is something to end. */
	a = iwb_call(&iwb.at, "");
	assert_int_equal(iwcm_disconnect(a), 0);
	assert_ended(2, 0);
	accept_it();
	has_begun(a);
	assert_ended(3, 0);
	has_ended(a);
	iwcm_put(a);
	iwb_set(&iwb.refuse_to, 0);
}

/* ---- other peers ---------------------------------------------------------------------------- */

static int tcp_call(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&iwb.at, sizeof(iwb.at)), 0);
	return fd;
}

/* How long until the peer closes or breaks the connection; what it said before is thrown away. */
static int64_t gone_after_ms(int fd)
{
	struct timespec a, b;
	uint8_t buf[256];

	clock_gettime(CLOCK_MONOTONIC, &a);
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	clock_gettime(CLOCK_MONOTONIC, &b);
	close(fd);
	return (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
}

static void nonsense_is_left_at_once(void **state)
{
	static const char *const said[] = {"GET / HTTP/1.0\r\n\r\n", "MPA ID Rep Frame\x40\x01\0\0",
					   "MPA ID Req Frame\x40\x01\xff\xff"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		int fd = tcp_call();

		assert_int_equal(send(fd, said[i], i ? 20 : strlen(said[i]), MSG_NOSIGNAL),
				 i ? 20 : strlen(said[i]));
		assert_true(gone_after_ms(fd) < 3000);
	}
	assert_int_equal(iwb_next_within(0).what, 0);
}

/* Who says nothing, or byte by byte, has five seconds; others have their turn meanwhile. */
static void who_is_silent_is_left(void **state)
{
	int silent = tcp_call(), slow = tcp_call();
	struct iwcm_link *a, *p;
	int64_t ms;

	(void)state;
	assert_int_equal(send(slow, "MPA ID R", 8, 0), 8);
	a = iwb_call(&iwb.at, "");
	p = iwb_take();
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	ms = gone_after_ms(silent);
	assert_true(ms > 3000 && ms < 20000);
	assert_true(gone_after_ms(slow) < 10000);
}

/* Of many that are silent the oldest goes when another comes. */
static void many_who_are_silent_keep_nobody_out(void **state)
{
	static int fd[IWCM_SILENT_MAX + 20];
	struct iwcm_link *a, *p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = tcp_call();
	a = iwb_call(&iwb.at, "");
	p = iwb_take();
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	assert_true(gone_after_ms(fd[0]) < 3000);
	for (size_t i = 1; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
}

/* Of those that are rejected and stay only so many are waited for. */
static void who_is_rejected_and_stays_is_left(void **state)
{
	static int fd[IWCM_CLOSING_MAX + 60];
	const unsigned int before = iwb_descriptors();
	const struct iw_params mine = iwb_params("");
	uint8_t out[IW_OUT_MAX], in[IW_OUT_MAX];
	struct iw_conn c;
	int len = iw_connect(&c, &mine, out);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = tcp_call();
		assert_int_equal(send(fd[i], out, (size_t)len, 0), len);
		iwcm_put(iwb_take());
		assert_true(recv(fd[i], in, sizeof(in), 0) > 0);
	}
	assert_true(iwb_descriptors() <= before + ARRAY_SIZE(fd) + IWCM_CLOSING_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
}

/* Of a request byte by byte, with something behind it that is the stream's. */
static void what_comes_early_is_the_streams(void **state)
{
	const struct iw_params mine = iwb_params("abc");
	const struct iw_params answer = iwb_params("");
	uint8_t out[IW_OUT_MAX + 16], in[IW_OUT_MAX];
	struct iw_conn c;
	struct iwcm_link *p;
	int fd = tcp_call(), len = iw_connect(&c, &mine, out);
	size_t used;
	ssize_t got;

	(void)state;
	assert_true(len > 0);
	for (int i = 0; i < len - 1; i++) {
		assert_int_equal(send(fd, out + i, 1, 0), 1);
		if (i % 8 == 0)
			usleep(1000);
	}
	memcpy(out + len, "early", 5);
	assert_int_equal(send(fd, out + len - 1, 6, 0), 6);
	p = iwb_take();
	assert_int_equal(iwcm_accept(p, ACCEPTER, 1, 0, &answer), 0);
	iwb_expect(ACCEPTER, IWCM_ESTABLISHED, 0);
	assert_int_equal(iwb.begun[1].early_len, 5);
	assert_memory_equal(iwb.begun[1].early, "early", 5);
	got = recv(fd, in, sizeof(in), 0);
	assert_true(got > 0);
	assert_int_equal(iw_rx(&c, in, (size_t)got, &used), IW_ACCEPTED);
	close(fd);
	iwb_end(p, 1);
}

/* ---- other listeners ------------------------------------------------------------------------ */

struct answerer {
	int fd;
	const uint8_t *says[2]; /* to the first, to the second */
	size_t len[2];
	uint8_t heard[2][IW_OUT_MAX];
	ssize_t heard_len[2];
	uint8_t last[64];
	ssize_t last_len;
	uint16_t from; /* the caller's port; 0: any */
};

static void *answer_calls(void *arg)
{
	struct answerer *a = arg;

	for (int i = 0; i < 2 && a->says[i]; i++) {
		int fd = accept(a->fd, NULL, NULL);

		a->heard_len[i] = recv(fd, a->heard[i], sizeof(a->heard[i]), 0);
		(void)!send(fd, a->says[i], a->len[i], MSG_NOSIGNAL);
		a->last_len = recv(fd, a->last, sizeof(a->last), 0);
		close(fd);
	}
	return NULL;
}

static struct iwcm_link *call_one_who_says(struct answerer *a, pthread_t *thread)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	a->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(a->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(a->fd, 5), 0);
	assert_int_equal(getsockname(a->fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(pthread_create(thread, NULL, answer_calls, a), 0);
	return a->from ? iwb_call_from_port(a->from, &at, "private") : iwb_call(&at, "private");
}

#define REPLY "MPA ID Rep Frame"

static uint16_t any_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	close(fd);
	return ntohs(at.sin_port);
}

/* One of revision 1 rejects what it does not know; it is asked again in its own words. From: the
 * caller's port, or any. */
static void is_asked_in_its_words(uint16_t from)
{
	struct answerer a = {.says = {(const uint8_t *)REPLY "\x60\x01\0\0",
				      (const uint8_t *)REPLY "\x40\x01\0\x03xyz!"},
			     .len = {20, 24},
			     .from = from};
	struct mpa_start start;
	struct iwcm_link *l;
	pthread_t thread;

	l = call_one_who_says(&a, &thread);
	iwb_expect(CALLER, IWCM_ESTABLISHED, 0);
	assert_int_equal(iwcm_conn(l)->private_len, 3);
	assert_memory_equal(iwcm_conn(l)->private_data, "xyz", 3);
	/* It sends at once, before the queue pair has its stream. */
	assert_int_equal(iwb.begun[0].early_len, 1);
	assert_int_equal(iwb.begun[0].agreed.rtr, MPA_RTR_NONE);
	iwb_end(l, 0);
	pthread_join(thread, NULL);
	close(a.fd);
	assert_int_equal(mpa_start_get(&start, a.heard[0]), 0);
	assert_int_equal(start.rev, 2);
	assert_int_equal(mpa_start_get(&start, a.heard[1]), 0);
	assert_int_equal(start.rev, 1);
	assert_int_equal(a.heard_len[1], 20 + 7);
	assert_memory_equal(a.heard[1] + 20, "private", 7);
}

static void old_ones_are_asked_in_their_words(void **state)
{
	(void)state;
	is_asked_in_its_words(0);
}

static void so_they_are_from_a_port_of_the_callers(void **state)
{
	(void)state;
	is_asked_in_its_words(any_port());
}

/* One that would send more READs than we answer is told why not. */
static void what_is_not_agreed_on_is_terminated(void **state)
{
	/* Enhanced, IRD 4, ORD 9. */
	struct answerer a = {.says = {(const uint8_t *)REPLY "\x50\x02\0\x04\0\x04\0\x09"},
			     .len = {24}};
	struct rdmap_terminate t;
	struct iwcm_link *l;
	struct ddp_hdr h;
	pthread_t thread;

	(void)state;
	l = call_one_who_says(&a, &thread);
	iwb_expect(CALLER, IWCM_FAILED, -EPROTO);
	pthread_join(thread, NULL);
	close(a.fd);
	assert_int_equal(a.last_len, 2 + 18 + 4 + 4);
	assert_int_equal(ddp_hdr_get(&h, a.last + 2, 22), DDP_UNTAGGED_LEN);
	assert_int_equal(h.opcode, RDMAP_TERMINATE);
	assert_int_equal(rdmap_terminate_get(&t, a.last + 2 + 18, 4), 0);
	assert_int_equal(t.cause, MPA_TERM_IRD);
	iwcm_put(l);
}

static void nonsense_for_an_answer_is_an_error(void **state)
{
	struct answerer a = {.says = {(const uint8_t *)"HTTP/1.0 400 Bad Request"}, .len = {24}};
	struct iwcm_link *l;
	pthread_t thread;

	(void)state;
	l = call_one_who_says(&a, &thread);
	iwb_expect(CALLER, IWCM_FAILED, -EPROTO);
	pthread_join(thread, NULL);
	close(a.fd);
	iwcm_put(l);
}

/* One whose host is there and does not answer: its backlog is full. */
static void who_gets_no_answer_gives_up(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0), filler[4];
	socklen_t len = sizeof(at);
	struct iwcm_link *l;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	for (size_t i = 0; i < ARRAY_SIZE(filler); i++) {
		filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(filler[i], (struct sockaddr *)&at, sizeof(at));
	}
	l = iwb_call(&at, "");
	assert_int_equal(iwb_next_within(5).what, 0);
	iwb_expect(CALLER, IWCM_UNREACHABLE, -ETIMEDOUT);
	iwcm_put(l);
	for (size_t i = 0; i < ARRAY_SIZE(filler); i++)
		close(filler[i]);
	close(fd);
}

/* Given up in the midst of it: nothing is told, and nothing is left. */
static void who_is_given_up_is_heard_of_no_more(void **state)
{
	struct iwcm_link *a, *p;

	(void)state;
	for (int i = 0; i < 50; i++) {
		a = iwb_call(&iwb.at, "");
		if (i % 2)
			usleep((useconds_t)i * 10);
		iwcm_put(a);
	}
	for (;;) {
		struct told t = iwb_next_within(1);

		if (!t.what)
			break;
		assert_int_equal(t.what, IWCM_REQUEST);
		p = iwcm_take(LISTENER, t.nr);
		if (p)
			iwcm_put(p);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, iwb_open, iwb_close)
	const struct CMUnitTest tests[] = {
		T(both_come_to_their_streams),
		T(a_rejection_has_its_reasons_along),
		T(where_nobody_listens_one_is_rejected),
		T(who_listens_anew_is_met),
		T(who_was_not_read_calls_the_next),
		T(who_was_heard_for_long_is_not_called_again),
		T(who_is_brief_calls_once),
		T(where_no_way_leads_one_is_told_so),
		T(requests_end_with_their_listener),
		T(what_goes_beyond_the_backlog_is_rejected),
		T(a_stream_that_does_not_begin_is_told),
		T(what_could_not_be_told_is_told_again),
		T(who_can_be_told_nothing_keeps_nobody_waiting),
		T(the_end_is_told_after_the_beginning),
		T(a_stream_does_not_outlive_its_identifier),
		T(who_disconnects_early_is_connected_no_longer_than_it_takes),
		T(what_cannot_begin_is_not_accepted),
		T(nonsense_is_left_at_once),
		T(who_is_silent_is_left),
		T(many_who_are_silent_keep_nobody_out),
		T(who_is_rejected_and_stays_is_left),
		T(what_comes_early_is_the_streams),
		T(old_ones_are_asked_in_their_words),
		T(so_they_are_from_a_port_of_the_callers),
		T(what_is_not_agreed_on_is_terminated),
		T(nonsense_for_an_answer_is_an_error),
		T(who_gets_no_answer_gives_up),
		T(who_is_given_up_is_heard_of_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
