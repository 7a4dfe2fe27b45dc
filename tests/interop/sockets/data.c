// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Data: all of them, in order, once; and what recv(2) and send(2) say of their flags. */
#include "case.h"

enum { MUCH = 3000000 };

static void data_echo(void)
{
	int fd = joined(), one = 1, ok = 0;

	T(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	for (int i = 0; i < 100; i++) {
		const size_t n = (size_t)i * 37 % 1000 + 1;

		if (!server)
			pour(fd, 1, (size_t)i, n);
		ok += gulp(fd, server ? 1 : 2, (size_t)i, n);
		if (server)
			pour(fd, 2, (size_t)i, n);
	}
	T(ok);
}

static void data_one_way(void)
{
	int fd = joined();

	if (server) {
		drink(fd, 1, 0, MUCH);
		drain(fd);
	} else {
		pour(fd, 1, 0, MUCH);
		T(close(fd));
	}
	meet();
}

struct half {
	int fd;
	unsigned seed;
	size_t offset, n;
};

static void *pours(void *arg)
{
	const struct half *h = arg;

	pour(h->fd, h->seed, h->offset, h->n);
	return NULL;
}

static void *drinks(void *arg)
{
	const struct half *h = arg;

	drink(h->fd, h->seed, h->offset, h->n);
	return NULL;
}

static void data_both_ways(void)
{
	int fd = joined();
	struct half h = {fd, server, 0, MUCH};
	pthread_t t = thread(pours, &h);

	drink(fd, !server, 0, MUCH);
	ended(t);
	T(shutdown(fd, SHUT_WR));
	drain(fd);
}

/* Eight connections at a time, each of its own two threads. */
static void data_many(void)
{
	enum { MANY = 8, EACH = 400000 };
	struct half out[MANY], in[MANY];
	int listener, fds[MANY];
	pthread_t t[2 * MANY];

	joined_more(&listener, fds, MANY);
	for (int i = 0; i < MANY; i++) {
		out[i] = (struct half){fds[i], (unsigned)(2 * i + server), 0, EACH};
		in[i] = (struct half){fds[i], (unsigned)(2 * i + !server), 0, EACH};
		t[2 * i] = thread(pours, &out[i]);
		t[2 * i + 1] = thread(drinks, &in[i]);
	}
	for (int i = 0; i < 2 * MANY; i++)
		ended(t[i]);
	for (int i = 0; i < MANY; i++)
		T(close(fds[i]));
}

static void data_bytes(void)
{
	int fd = joined();
	uint8_t c, due;

	for (size_t i = 0; i < 3000; i++) {
		fill(&due, 4, i, 1);
		if (!server)
			need(write(fd, &due, 1) == 1);
		else if (read(fd, &c, 1) != 1 || c != due)
			say("byte %zu is wrong", i);
	}
	say("all");
}

/* Many short connections, each with an answer. */
static void data_short_lives(void)
{
	enum { MANY = 60 };
	int listener = -1, ok = 0;
	char c;

	if (server)
		listener = listening();
	meet();
	for (int i = 0; i < MANY; i++) {
		int fd = server ? accept(listener, NULL, NULL) : connected();

		if (server)
			ok += read(fd, &c, 1) == 1 && c == (char)i && write(fd, &c, 1) == 1;
		else
			ok += write(fd, &(char){(char)i}, 1) == 1 && read(fd, &c, 1) == 1 &&
			      c == (char)i && read(fd, &c, 1) == 0;
		close(fd);
	}
	say("%d of %d", ok, MANY);
}

static void data_peek(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "hello", 5, 0));
		meet();
		meet();
		T(send(fd, " world", 6, 0));
		meet();
		meet();
		T(close(fd));
		meet();
		return;
	}
	meet();
	await_bytes(fd, 5);
	R(fd, 3, MSG_PEEK);
	R(fd, 100, MSG_PEEK);
	R(fd, 2, 0);
	R(fd, 100, MSG_PEEK);
	meet();
	meet();
	await_bytes(fd, 9);
	R(fd, 100, MSG_PEEK);
	R(fd, 9, MSG_PEEK | MSG_WAITALL);
	R(fd, 100, 0);
	R(fd, 100, MSG_PEEK | MSG_DONTWAIT);
	meet();
	R(fd, 100, MSG_PEEK);
	R(fd, 100, 0);
	meet();
}

static void data_peek_all(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "hello", 5, 0));
		meet();
		nap(200); /* the peer waits for all of it */
		T(send(fd, " world", 6, 0));
	} else {
		meet();
		R(fd, 11, MSG_PEEK | MSG_WAITALL);
		R(fd, 11, MSG_WAITALL);
	}
	meet();
}

/* Around the end of the receive buffer, whatever its size. */
static void data_peek_around(void)
{
	enum { STEP = 50021, ROUNDS = 30 };
	uint8_t *buf = malloc(STEP), *due = malloc(STEP);
	int fd = joined(), wrong = 0;

	for (size_t i = 0; i < ROUNDS; i++) {
		if (server) {
			pour(fd, 9, i * STEP, STEP);
		} else {
			fill(due, 9, i * STEP, STEP);
			await_bytes(fd, STEP);
			wrong += recv(fd, buf, STEP, MSG_PEEK) != STEP || memcmp(buf, due, STEP);
			wrong += recv(fd, buf, STEP, MSG_WAITALL) != STEP || memcmp(buf, due, STEP);
		}
		meet();
	}
	say("%d wrong", wrong);
	free(buf);
	free(due);
}

static void data_all(void)
{
	int fd = joined();

	if (server) {
		for (int i = 0; i < 5; i++) {
			T(send(fd, "piece", 5, 0));
			nap(30);
		}
		meet();
		T(send(fd, "end", 3, 0));
		T(close(fd));
	} else {
		R(fd, 20, MSG_WAITALL);
		R(fd, 5, MSG_WAITALL);
		R(fd, 100, MSG_WAITALL | MSG_DONTWAIT);
		meet();
		R(fd, 100, MSG_WAITALL); /* as much as there is at the end */
		R(fd, 100, MSG_WAITALL);
	}
	meet();
}

static void data_nonblocking(void)
{
	int fd = joined();
	char c;

	R(fd, 5, MSG_DONTWAIT);
	nonblocking(fd, true);
	T(read(fd, &c, 1));
	R(fd, 5, 0);
	R(fd, 5, MSG_WAITALL);
	R(fd, 0, 0);
	meet();
	T(send(fd, "hello", 5, MSG_DONTWAIT));
	await_bytes(fd, 5);
	R(fd, 0, 0);
	R(fd, 3, 0);
	R(fd, 5, MSG_WAITALL);
	R(fd, 5, 0);
	meet();
}

/* Until no more goes in; then as much comes out. */
static void data_full(void)
{
	uint8_t *buf = malloc(10000);
	int fd = joined(), full = 0;
	size_t n = 0, at_first = 0;
	ssize_t rc;

	need(buf);
	if (server) {
		nonblocking(fd, true);
		while (full < 5) {
			fill(buf, 6, n, 10000);
			rc = write(fd, buf, 10000);
			full = rc < 0 ? full + 1 : 0;
			at_first = at_first || rc > 0 ? at_first : n;
			n += rc > 0 ? (size_t)rc : 0;
			if (rc < 0)
				nap(30);
		}
		T(write(fd, buf, 10000));
		show_events(fd, POLLIN | POLLOUT);
		tell(0, (long)n);
		meet();
		await_events(fd, POLLIN | POLLOUT, POLLOUT);
		meet(); /* all that was written is read */
		T(write(fd, buf, 1));
		say("some went in: %d", at_first > 10000);
	} else {
		meet();
		T(gulp(fd, 6, 0, (size_t)asked(0)));
		meet();
		T(recv(fd, buf, 10, 0));
	}
	meet();
	free(buf);
}

static void data_timeouts(void)
{
	struct timeval short_time = {.tv_usec = 150000};
	int fd = joined();
	char *buf = calloc(1, 1000000);
	ssize_t rc;

	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof(short_time)));
	T(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &short_time, sizeof(short_time)));
	R(fd, 5, 0);
	R(fd, 5, MSG_WAITALL);
	R(fd, 5, MSG_PEEK);
	meet();
	if (server) {
		T(send(fd, "abc", 3, 0));
		while ((rc = send(fd, buf, 1000000, 0)) > 0)
			;
		T(rc);
	} else {
		R(fd, 3, 0);
	}
	meet();
	free(buf);
}

/* The time is the call's, not that from one byte to the next. */
static void data_timeouts_in_all(void)
{
	struct timeval second = {.tv_sec = 1};
	int fd = joined();
	char buf[100];
	ssize_t rc;

	if (server) {
		T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)));
		rc = recv(fd, buf, 20, MSG_WAITALL);
		say("some, and not all: %d", rc > 0 && rc < 10);
		meet();
		return;
	}
	for (int i = 0; i < 12; i++) {
		need(send(fd, "x", 1, 0) == 1);
		usleep(300000);
	}
	meet();
}

static void data_low_water(void)
{
	int fd = joined(), low = 4;

	if (server) {
		T(send(fd, "abc", 3, 0));
		meet();
		meet();
		T(send(fd, "de", 2, 0));
	} else {
		T(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		meet();
		await_bytes(fd, 3);
		show_events(fd, POLLIN);
		R(fd, 10, MSG_DONTWAIT);
		R(fd, 10, MSG_DONTWAIT | MSG_PEEK);
		meet();
		await_bytes(fd, 2);
		show_events(fd, POLLIN);
	}
	meet();
}

static void data_urgent(void)
{
	int fd = joined(), v = -1;

	if (server) {
		T(send(fd, "ab", 2, 0));
		T(send(fd, "!", 1, MSG_OOB));
		T(send(fd, "cd", 2, 0));
	} else {
		await_events(fd, POLLIN | POLLPRI, POLLPRI);
		T(ioctl(fd, SIOCATMARK, &v));
		say("at the mark: %d", v);
		R(fd, 1, MSG_OOB);
		R(fd, 1, MSG_OOB);
		R(fd, 2, 0);
		T(ioctl(fd, SIOCATMARK, &v));
		say("at the mark: %d", v);
		R(fd, 2, MSG_WAITALL);
	}
	meet();
}

static void data_urgent_inline(void)
{
	int fd = joined(), one = 1;

	if (!server)
		T(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
	meet();
	if (server) {
		T(send(fd, "a!", 2, MSG_OOB));
		T(send(fd, "bc", 2, 0));
	} else {
		R(fd, 1, MSG_WAITALL);
		R(fd, 3, MSG_WAITALL);
		R(fd, 1, MSG_OOB);
	}
	meet();
}

static void data_more(void)
{
	int fd = joined(), one = 1, none = 0;

	if (server) {
		T(send(fd, "a", 1, MSG_MORE));
		T(send(fd, "b", 1, MSG_MORE));
		T(send(fd, "c", 1, 0));
		meet();
		T(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof(one)));
		T(send(fd, "d", 1, 0));
		T(send(fd, "e", 1, 0));
		T(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &none, sizeof(none)));
		meet();
		T(send(fd, "f", 1, MSG_MORE));
		T(close(fd));
	} else {
		R(fd, 3, MSG_WAITALL);
		meet();
		R(fd, 2, MSG_WAITALL);
		meet();
		R(fd, 10, MSG_WAITALL);
	}
	meet();
}

static void data_flags(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "hello", 5, MSG_CONFIRM));
		T(send(fd, "hello", 5, MSG_DONTROUTE));
		T(send(fd, "hello", 5, MSG_EOR));
		T(send(fd, "hello", 5, 1 << 23));
		T(send(fd, "", 0, 0));
		T(send(fd, nowhere, 0, 0));
		T(write(fd, "", 0));
		meet();
	} else {
		meet();
		R(fd, 20, MSG_WAITALL);
		R(fd, 5, MSG_ERRQUEUE);
		R(fd, 5, MSG_ERRQUEUE | MSG_DONTWAIT);
	}
	meet();
}

/* TCP discards what it truncates. */
static void data_truncated(void)
{
	int fd = joined();
	char buf[8] = "-------";

	if (server) {
		T(send(fd, "hello world", 11, 0));
	} else {
		await_bytes(fd, 11);
		T(recv(fd, buf, 5, MSG_TRUNC));
		say("%.7s", buf);
		R(fd, 20, 0);
	}
	meet();
}

static void data_nothing(void)
{
	int fd = joined();
	char c;

	if (server) {
		meet();
		nap(100);
		T(send(fd, "hello", 5, 0));
	} else {
		T(read(fd, &c, 0));
		meet();
		await_bytes(fd, 5);
		R(fd, 0, 0);
		R(fd, 0, MSG_PEEK);
		T(read(fd, &c, 0));
		R(fd, 5, 0);
	}
	meet();
	T(shutdown(fd, SHUT_WR));
	R(fd, 0, 0);
	meet();
}

/* Is nothing received at once where there is nothing? */
static void data_nothing_waits(void)
{
	struct timeval short_time = {.tv_usec = 150000};
	int fd = joined();

	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof(short_time)));
	R(fd, 0, 0);
	R(fd, 0, MSG_WAITALL);
	R(fd, 0, MSG_DONTWAIT);
	meet();
}

static void data_nowhere(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "hello", 5, 0));
		T(send(fd, bad, 5, 0));
		T(write(fd, bad, 5));
		T(send(fd, bad, 5000000, 0));
		T(send(fd, "there", 5, 0));
	} else {
		await_bytes(fd, 10);
		T(recv(fd, bad, 5, 0));
		T(read(fd, bad, 5));
		T(recv(fd, bad, 5, MSG_PEEK));
		R(fd, 10, MSG_WAITALL);
		T(recv(fd, bad, 5, MSG_DONTWAIT));
	}
	meet();
}

/* A buffer whose second page is for nobody. */
static void data_half_nowhere(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = joined();

	need(at != MAP_FAILED &&
	     !mprotect(at + page, page, PROT_NONE)); /* nobody else maps there */
	memset(at, 'x', page);
	if (server) {
		T(send(fd, at + page - 5, 5, 0));
		T(send(fd, "hello", 5, 0));
	} else {
		await_bytes(fd, 10);
		T(recv(fd, at + page - 3, 3, 0));
		say("%.3s", at + page - 3);
		T(recv(fd, at + page - 3, 7, 0) != 7);
	}
	meet();
}

static void *reads(void *arg)
{
	const int *fd = arg;
	size_t n = 0;
	char buf[777];
	ssize_t got;

	while ((got = read(*fd, buf, sizeof(buf))) > 0)
		n += (size_t)got;
	return (void *)n;
}

/* Two threads read one connection: each byte goes to one of them. */
static void data_two_readers(void)
{
	int fd = joined();
	pthread_t a, b;

	if (server) {
		pour(fd, 8, 0, 500000);
		T(shutdown(fd, SHUT_WR));
	} else {
		a = thread(reads, &fd);
		b = thread(reads, &fd);
		say("%zu in all", (size_t)ended(a) + (size_t)ended(b));
	}
	meet();
}

struct letter {
	int fd;
	char c;
};

static void *writes(void *arg)
{
	const struct letter *l = arg;
	char buf[1000];

	memset(buf, l->c, sizeof(buf));
	for (int i = 0; i < 200; i++)
		need(send(l->fd, buf, sizeof(buf), 0) == sizeof(buf));
	return NULL;
}

/* Four threads write one: nothing is lost, and nothing comes twice. */
static void data_four_writers(void)
{
	int fd = joined(), count[4] = {0};
	struct letter l[4];
	pthread_t t[4];
	char buf[4096];
	ssize_t got;

	if (server) {
		for (int i = 0; i < 4; i++) {
			l[i] = (struct letter){fd, (char)('a' + i)};
			t[i] = thread(writes, &l[i]);
		}
		for (int i = 0; i < 4; i++)
			ended(t[i]);
		T(shutdown(fd, SHUT_WR));
	} else {
		while ((got = read(fd, buf, sizeof(buf))) > 0)
			for (ssize_t i = 0; i < got; i++)
				count[(buf[i] - 'a') & 3]++;
		say("%d %d %d %d", count[0], count[1], count[2], count[3]);
	}
	meet();
}

/* Both write before either reads; each stays below what any buffer takes. */
static void data_crossed(void)
{
	int fd = joined();

	for (size_t i = 0; i < 20; i++) {
		pour(fd, server, i * 30000, 30000);
		drink(fd, !server, i * 30000, 30000);
	}
}

static void data_by_family(const char *name, struct sockaddr *to, socklen_t len, int family)
{
	struct sockaddr_storage a;
	socklen_t room = sizeof(a);
	int fd, listener, none = 0;

	say("%s", name);
	if (server) {
		struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port(0))};

		listener = socket(AF_INET6, SOCK_STREAM, 0);
		T(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof(none)));
		T(bind(listener, SA(&any), sizeof(any)));
		T(listen(listener, 5));
		meet();
		fd = F(accept(listener, SA(&a), &room));
		close(listener);
	} else {
		meet();
		fd = socket(family, SOCK_STREAM, 0);
		T(connect(fd, to, len));
		T(getpeername(fd, SA(&a), &room));
	}
	say("family %d, %u bytes, mapped: %d", a.ss_family, room,
	    a.ss_family == AF_INET6 &&
		    IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)&a)->sin6_addr));
	pour(fd, server, 0, 100000);
	drink(fd, !server, 0, 100000);
	T(close(fd));
}

static void data_ipv6(void)
{
	struct sockaddr_in6 a = at6(true, port(0));

	data_by_family("IPv6", SA(&a), sizeof(a), AF_INET6);
}

static void data_ipv4_to_ipv6(void)
{
	struct sockaddr_in a = at(true, port(0));

	data_by_family("IPv4 to a listener of IPv6", SA(&a), sizeof(a), AF_INET);
}

static void data_ipv4_mapped(void)
{
	struct sockaddr_in v4 = at(true, port(0));
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};

	a.sin6_addr.s6_addr[10] = a.sin6_addr.s6_addr[11] = 0xff;
	memcpy(a.sin6_addr.s6_addr + 12, &v4.sin_addr, 4);
	data_by_family("IPv4 in IPv6", SA(&a), sizeof(a), AF_INET6);
}

const struct test_case data_cases[] = {
	CASE(data_echo),
	CASE(data_one_way),
	CASE(data_both_ways),
	CASE(data_many),
	CASE(data_bytes),
	CASE(data_short_lives),
	CASE(data_peek),
	CASE(data_peek_all),
	CASE(data_peek_around),
	CASE(data_all),
	CASE(data_nonblocking),
	CASE(data_full),
	CASE(data_timeouts),
	CASE(data_timeouts_in_all),
	CASE(data_low_water),
	CASE(data_urgent),
	CASE(data_urgent_inline),
	CASE(data_more),
	CASE(data_flags),
	CASE(data_truncated),
	CASE(data_nothing),
	CASE(data_nothing_waits),
	CASE(data_nowhere),
	CASE(data_half_nowhere),
	CASE(data_two_readers),
	CASE(data_four_writers),
	CASE(data_crossed),
	CASE(data_ipv6),
	CASE(data_ipv4_to_ipv6),
	CASE(data_ipv4_mapped),
	{0},
};
