/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The page for Prometheus takes the time of a thread, not of the loop. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/metrics.h"

#define SLOW_NS (300 * NSEC_PER_MSEC)

static struct metrics *metrics;
static uint16_t port;
static unsigned taken;
static atomic_uint made;
static bool no_memory;

static void *take(void *ctx)
{
	(void)ctx;
	taken++;
	return &taken;
}

static char *make(void *figures, size_t *ret_len)
{
	char *text = no_memory ? NULL : strdup("figures 1\n");

	assert_ptr_equal(figures, &taken);
	nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
	*ret_len = text ? strlen(text) : 0;
	made++;
	return text;
}

static int begin(void **state)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char at[32], why[256];

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd); /* a port that nobody had a moment ago */
	port = sa.sin_port;
	snprintf(at, sizeof(at), "127.0.0.1:%u", ntohs(port));
	taken = 0;
	made = 0;
	no_memory = false;
	assert_int_equal(metrics_create(at, take, make, NULL, &metrics, why, sizeof(why)), 0);
	return 0;
}

static int asks(void)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	return fd;
}

/* A turn of the loop, that sleeps as the service's does; it took so long when it did not. */
static uint64_t turn(void)
{
	struct pollfd p = {.fd = metrics_fd(metrics), .events = POLLIN};
	uint64_t begun;

	(void)poll(&p, 1, 20);
	begun = time_now_ns();
	metrics_process(metrics, begun);
	return time_now_ns() - begun;
}

static void answered(int fd, const char *with)
{
	uint64_t end = time_now_ns() + 20 * NSEC_PER_SEC;
	char text[4096];
	ssize_t n = 0;

	while (n <= 0 && time_now_ns() < end) {
		turn();
		n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	}
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, with));
	close(fd);
}

static void a_page_that_takes_long_does_not_hold_up_the_loop(void **state)
{
	int one = asks(), two = asks();
	unsigned quick = 0;

	(void)state;
	while (!made)
		quick += turn() < SLOW_NS / 4; /* a busy machine may stop us, but not each time */
	assert_true(quick > 2);
	answered(one, "figures 1");
	answered(two, "figures 1");
	answered(asks(), "figures 1"); /* of the same second */
	assert_int_equal(taken, 1);
	metrics_destroy(metrics);
}

static void who_waits_for_a_page_that_cannot_be_made_is_told(void **state)
{
	(void)state;
	no_memory = true;
	answered(asks(), " 503 ");
	no_memory = false;
	answered(asks(), "figures 1");
	assert_int_equal(taken, 2);
	metrics_destroy(metrics);
}

static void the_end_waits_for_a_page_that_is_being_made(void **state)
{
	int fd = asks();

	(void)state;
	while (!taken)
		turn();
	metrics_destroy(metrics);
	assert_int_equal(made, 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_page_that_takes_long_does_not_hold_up_the_loop, begin),
		cmocka_unit_test_setup(who_waits_for_a_page_that_cannot_be_made_is_told, begin),
		cmocka_unit_test_setup(the_end_waits_for_a_page_that_is_being_made, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
