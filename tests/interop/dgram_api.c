/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Datagram rsockets by their contract, in one process; and before a peer that is a bare UDP socket.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7500, WAIT_MS = 10000, LONGEST = 2048 - 28 };

static int a = -1, b = -1; /* bound to PORT; not bound */
static struct sockaddr_in at_a;

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int setup(void **state)
{
	(void)state;
	at_a = loopback(PORT);
	a = rsocket(AF_INET, SOCK_DGRAM, 0);
	b = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	return a < 0 || b < 0 || rbind(a, (struct sockaddr *)&at_a, sizeof(at_a));
}

static int teardown(void **state)
{
	(void)state;
	return rclose(a) || rclose(b);
}

#define assert_fails(call, err)                 \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, (err)); \
	} while (0)

static bool readable(int fd, int timeout)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return rpoll(&p, 1, timeout) == 1 && p.revents == POLLIN;
}

/* From b to a and back: the way there is known afterwards, both ways. */
static struct sockaddr_in acquaint(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char c = 0;

	assert_int_equal(rsendto(b, "h", 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)), 1);
	assert_true(readable(a, WAIT_MS));
	assert_int_equal(rrecvfrom(a, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
	assert_int_equal(c, 'h');
	assert_int_equal(len, sizeof(from));
	assert_int_equal(rsendto(a, "i", 1, 0, (struct sockaddr *)&from, len), 1);
	assert_true(readable(b, WAIT_MS));
	assert_int_equal(rrecv(b, &c, 1, 0), 1);
	assert_int_equal(c, 'i');
	return from;
}

static void the_first_datagram_and_the_next_ones_arrive(void **state)
{
	struct sockaddr_in from = acquaint(), own, again;
	socklen_t len = sizeof(own);

	(void)state;
	assert_int_equal(rgetsockname(b, (struct sockaddr *)&own, &len), 0);
	assert_int_equal(from.sin_port, own.sin_port);
	assert_int_equal(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	for (int i = 0; i < 1000; i++) {
		int got = -1;

		assert_int_equal(
			rsendto(b, &i, sizeof(i), 0, (struct sockaddr *)&at_a, sizeof(at_a)),
			sizeof(i));
		assert_true(readable(a, WAIT_MS));
		len = sizeof(again);
		assert_int_equal(
			rrecvfrom(a, &got, sizeof(got), 0, (struct sockaddr *)&again, &len),
			sizeof(got));
		assert_int_equal(got, i);
		assert_memory_equal(&again, &from, sizeof(again));
	}
}

static void every_length_that_fits_goes_and_no_other(void **state)
{
	static uint8_t out[LONGEST + 1], in[LONGEST + 1];
	static const size_t lengths[] = {0, 1, 64, 1000, 1016, 1017, 2000, LONGEST};

	(void)state;
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 7);
	acquaint();
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t n = lengths[i];

		memset(in, 0, sizeof(in));
		assert_int_equal(rsendto(b, out, n, 0, (struct sockaddr *)&at_a, sizeof(at_a)), n);
		assert_true(readable(a, WAIT_MS));
		assert_int_equal(rrecv(a, in, sizeof(in), 0), n);
		assert_memory_equal(in, out, n);
	}
	assert_fails(rsendto(b, out, LONGEST + 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)),
		     EMSGSIZE);
}

static void boundaries_are_kept(void **state)
{
	char buf[16] = "";
	struct iovec iov[] = {{buf, 2}, {buf + 8, 2}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	(void)state;
	acquaint();
	assert_int_equal(rconnect(b, (struct sockaddr *)&at_a, sizeof(at_a)), 0);
	assert_int_equal(rsend(b, "abcdef", 6, 0), 6);
	assert_int_equal(rsend(b, "gh", 2, 0), 2);
	assert_true(readable(a, WAIT_MS));
	assert_int_equal(rrecv(a, buf, 3, MSG_PEEK), 3);
	assert_memory_equal(buf, "abc", 3);
	assert_int_equal(rrecvmsg(a, &msg, 0), 4);
	assert_memory_equal(buf, "ab", 2);
	assert_memory_equal(buf + 8, "cd", 2);
	assert_true(msg.msg_flags & MSG_TRUNC);
	assert_true(readable(a, WAIT_MS));
	assert_int_equal(rrecv(a, buf, sizeof(buf), 0), 2);
	assert_memory_equal(buf, "gh", 2);
	assert_fails(rrecv(a, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
}

static void wrong_calls_say_what_is_wrong(void **state)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	(void)state;
	assert_fails(rsend(b, "x", 1, 0), EDESTADDRREQ);
	assert_fails(rsendto(b, "x", 1, 0, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT);
	assert_fails(rsendto(b, "x", 1, 0, (struct sockaddr *)&at_a, 3), EINVAL);
	assert_fails(rlisten(b, 1), EOPNOTSUPP);
	assert_fails(raccept(b, NULL, NULL), EOPNOTSUPP);
	assert_fails(rbind(b, (struct sockaddr *)&at_a, sizeof(at_a)), EINVAL);
	assert_fails(riomap(b, &six, sizeof(six), PROT_WRITE, 0, 0), EOPNOTSUPP);
}

static void *send_soon(void *arg)
{
	(void)arg;
	usleep(100000);
	assert_int_equal(rsendto(b, "w", 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)), 1);
	return NULL;
}

static void a_blocked_reader_wakes(void **state)
{
	pthread_t t;
	char c;

	(void)state;
	for (int i = 0; i < 4; i++) { /* by UDP first, then by UD */
		pthread_create(&t, NULL, send_soon, NULL);
		assert_int_equal(rrecv(a, &c, 1, 0), 1);
		pthread_join(t, NULL);
	}
}

static _Atomic int taken, failed;

static void *read_ones(void *arg)
{
	char c;

	(void)arg;
	while (!failed) {
		if (rrecv(a, &c, 1, 0) != 1)
			failed = errno;
		else if (c == 'e')
			break;
		else
			taken++;
	}
	return NULL;
}

/* Each datagram is one thread's, and the others wait on. */
static void blocked_readers_do_not_fail_for_one_another(void **state)
{
	enum { READERS = 4, DATAGRAMS = 1000 };
	struct timespec pause = {.tv_nsec = 20000};
	pthread_t t[READERS];

	(void)state;
	taken = failed = 0;
	for (int i = 0; i < READERS; i++)
		pthread_create(&t[i], NULL, read_ones, NULL);
	for (int i = 0; i < DATAGRAMS; i++) {
		assert_int_equal(rsendto(b, "d", 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)), 1);
		for (int k = 0; k < 500000 && taken <= i && !failed; k++)
			nanosleep(&pause, NULL);
	}
	for (int i = 0; i < READERS; i++)
		assert_int_equal(rsendto(b, "e", 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)), 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(failed, 0);
	assert_int_equal(taken, DATAGRAMS);
}

/* What rdma-core sends first, byte for byte, from a socket that has no queue pair at all. */
static void a_peer_on_udp_is_answered_with_our_queue_pair(void **state)
{
	static const uint8_t hello[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0,   0,
					0x12, 0x34, 0x56, 127,	0, 0, 1,  'y', 'o'};
	uint8_t buf[64], tail[4] = {127, 0, 0, 1};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct pollfd p = {.fd = socket(AF_INET, SOCK_DGRAM, 0), .events = POLLIN};
	struct sockaddr_in own = loopback(PORT + 1);

	(void)state;
	assert_int_equal(bind(p.fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(
		sendto(p.fd, hello, sizeof(hello), 0, (struct sockaddr *)&at_a, sizeof(at_a)),
		sizeof(hello));
	assert_true(readable(a, WAIT_MS));
	assert_int_equal(rrecvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), 2);
	assert_memory_equal(buf, "yo", 2);
	assert_int_equal(from.sin_port, htons(PORT + 1));
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(p.fd, buf, sizeof(buf), 0), 16);
	assert_memory_equal(buf, hello, 5);
	assert_int_equal(buf[5], 7); /* an answer, not data */
	assert_int_equal(buf[6], 16);
	assert_true(buf[9] || buf[10] || buf[11]);
	assert_memory_equal(buf + 12, tail, 4);
	/* Rubbish, and a header that lies about its length, are nothing. */
	memcpy(buf, hello, sizeof(hello));
	buf[6] = 28;
	assert_int_equal(
		sendto(p.fd, buf, sizeof(hello), 0, (struct sockaddr *)&at_a, sizeof(at_a)),
		sizeof(hello));
	assert_int_equal(sendto(p.fd, "?", 1, 0, (struct sockaddr *)&at_a, sizeof(at_a)), 1);
	assert_false(readable(a, 200));
	close(p.fd);
}

static void options_reach_udp_or_the_queue_pair(void **state)
{
	int v = 1;
	socklen_t len = sizeof(v);

	(void)state;
	assert_int_equal(rsetsockopt(b, SOL_SOCKET, SO_BROADCAST, &v, sizeof(v)), 0);
	v = 0;
	assert_int_equal(rgetsockopt(b, SOL_SOCKET, SO_BROADCAST, &v, &len), 0);
	assert_int_equal(v, 1);
	v = 32;
	assert_int_equal(rsetsockopt(b, SOL_RDMA, RDMA_RQSIZE, &v, sizeof(v)), 0);
	acquaint();
	assert_fails(rsetsockopt(b, SOL_RDMA, RDMA_RQSIZE, &v, sizeof(v)), EINVAL);
	assert_int_equal(rgetsockopt(b, SOL_RDMA, RDMA_RQSIZE, &v, &len), 0);
	assert_int_equal(v, 32);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(the_first_datagram_and_the_next_ones_arrive),
		WITH(every_length_that_fits_goes_and_no_other),
		WITH(boundaries_are_kept),
		WITH(wrong_calls_say_what_is_wrong),
		WITH(a_blocked_reader_wakes),
		WITH(blocked_readers_do_not_fail_for_one_another),
		WITH(a_peer_on_udp_is_answered_with_our_queue_pair),
		WITH(options_reach_udp_or_the_queue_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
