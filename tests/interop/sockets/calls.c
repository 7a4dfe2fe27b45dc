// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Data by the calls that carry more than one buffer, or none of the program's. */
#include <limits.h>
#include <linux/sockios.h>
#include <sys/sendfile.h>

#include "case.h"

static int scratch_file(unsigned seed, size_t n)
{
	int fd = memfd_create("scratch", 0);
	uint8_t *buf = malloc(n + 1);

	need(fd >= 0 && buf);
	fill(buf, seed, 0, n);
	need(write(fd, buf, n) == (ssize_t)n);
	need(!lseek(fd, 0, SEEK_SET));
	free(buf);
	return fd;
}

static void vector_pieces(void)
{
	struct iovec v[5] = {{(void *)(uintptr_t) "he", 2},
			     {NULL, 0},
			     {(void *)(uintptr_t) "ll", 2},
			     {(void *)(uintptr_t) "", 0},
			     {(void *)(uintptr_t) "o", 1}};
	char a[4] = "", b[4] = "";
	struct iovec in[4] = {{a, 3}, {NULL, 0}, {b, 2}, {a, 0}};
	int fd = joined();

	if (server) {
		T(writev(fd, v, 5));
		T(writev(fd, v, 0));
		T(writev(fd, v + 1, 1));
		T(writev(fd, v, minus));
	} else {
		await_bytes(fd, 5);
		T(readv(fd, in, 4));
		say("%.3s %.2s", a, b);
		T(readv(fd, in, minus));
		T(readv(fd, in, 0));
	}
	meet();
}

static void vector_many(void)
{
	enum { MOST = IOV_MAX, EACH = 30 };
	static uint8_t data[MOST * EACH];
	static struct iovec v[MOST + 1];
	int fd = joined();

	for (int i = 0; i <= MOST; i++)
		v[i] = (struct iovec){data + i % MOST * EACH, EACH};
	if (server) {
		fill(data, 3, 0, sizeof(data));
		T(writev(fd, v, MOST + 1));
		T(writev(fd, v, MOST));
		T(sendmsg(fd, &(struct msghdr){.msg_iov = v, .msg_iovlen = MOST + 1}, 0));
	} else {
		await_bytes(fd, sizeof(data));
		T(readv(fd, v, MOST + 1));
		T(readv(fd, v, MOST));
		say("%08x", digest(0, data, sizeof(data)));
		T(recvmsg(fd, &(struct msghdr){.msg_iov = v, .msg_iovlen = MOST + 1}, 0));
	}
	meet();
}

/* Three pieces that one send buffer cannot take. */
static void vector_big(void)
{
	enum { EACH = 700001 };
	uint8_t *data = malloc(3 * EACH);
	struct iovec v[3] = {{data, EACH}, {data + EACH, EACH}, {data + 2 * EACH, EACH}};
	int fd = joined();

	need(data);
	if (server) {
		fill(data, 4, 0, 3 * EACH);
		T(writev(fd, v, 3));
	} else {
		drink(fd, 4, 0, 3 * EACH);
	}
	meet();
	free(data);
}

static void vector_wrong(void)
{
	char c;
	struct iovec v[2] = {{&c, (size_t)-1}, {&c, 5}};
	int fd = joined();

	T(writev(fd, v, 1));
	v[0].iov_len = SSIZE_MAX;
	T(writev(fd, v, 2));
	T(readv(fd, v, 2));
	T(writev(fd, bad, 2));
	meet();
}

static void message(void)
{
	char a[4] = "", b[8] = "", control[128];
	struct sockaddr_in from;
	struct iovec in[2] = {{a, 3}, {b, 7}};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = in,
			   .msg_iovlen = 2,
			   .msg_control = control,
			   .msg_controllen = sizeof(control),
			   .msg_flags = 0x7777};
	int fd = joined();

	if (server) {
		in[0] = (struct iovec){(void *)(uintptr_t) "hel", 3};
		in[1] = (struct iovec){(void *)(uintptr_t) "lo", 2};
		T(sendmsg(fd, &(struct msghdr){.msg_iov = in, .msg_iovlen = 2}, 0));
		T(sendmsg(fd, &(struct msghdr){0}, 0));
		T(sendmsg(fd, bad, 0));
		T(recvmsg(fd, bad, 0));
	} else {
		await_bytes(fd, 5);
		T(recvmsg(fd, &m, 0));
		say("%s %s, flags %x, name %u, control %zu", a, b, (unsigned)m.msg_flags,
		    m.msg_namelen, m.msg_controllen);
	}
	meet();
}

static void message_addressed(void)
{
	struct sockaddr_in a = unreachable();
	socklen_t len = sizeof(a);
	int fd = joined();
	char buf[8];

	if (server) {
		T(sendto(fd, "hello", 5, 0, SA(&a), sizeof(a)));
		T(sendto(fd, "there", 5, 0, SA(&a), 1));
		T(sendto(fd, "world", 5, 0, bad, sizeof(a)));
		meet();
	} else {
		memset(&a, 0x55, sizeof(a));
		T(recvfrom(fd, buf, 5, MSG_WAITALL, SA(&a), &len));
		say("%u, %x", len, a.sin_family);
		meet();
		R(fd, 5, MSG_WAITALL);
		R(fd, 5, MSG_DONTWAIT);
	}
	meet();
}

static void messages(void)
{
	enum { MANY = 4 };
	char buf[MANY][8] = {"one", "three", "x", "seventy"};
	struct iovec v[MANY];
	struct mmsghdr m[MANY] = {0};
	int fd = joined();

	for (int i = 0; i < MANY; i++) {
		v[i] = (struct iovec){buf[i], server ? strlen(buf[i]) : 4};
		m[i].msg_hdr = (struct msghdr){.msg_iov = &v[i], .msg_iovlen = 1};
	}
	if (server) {
		T(sendmmsg(fd, m, MANY, 0));
		T(sendmmsg(fd, m, 0, 0));
		for (int i = 0; i < MANY; i++)
			say("%u", m[i].msg_len);
		meet();
		T(shutdown(fd, SHUT_WR));
		T(sendmmsg(fd, m, MANY, MSG_NOSIGNAL));
	} else {
		await_bytes(fd, 16);
		memset(buf, 0, sizeof(buf));
		T(recvmmsg(fd, m, 3, 0, NULL));
		for (int i = 0; i < 3; i++)
			say("%u %.4s", m[i].msg_len, buf[i]);
		T(recvmmsg(fd, m, MANY, MSG_DONTWAIT, NULL));
		say("%u %.4s", m[0].msg_len, buf[0]);
		T(recvmmsg(fd, m, MANY, MSG_DONTWAIT, NULL));
		T(recvmmsg(fd, m, MANY, MSG_WAITFORONE, &(struct timespec){-1, 0}));
		meet();
		T(recvmmsg(fd, m, 1, MSG_WAITFORONE, NULL));
		say("%u", m[0].msg_len);
	}
	meet();
}

static void vector_at_offset(void)
{
	char buf[8] = "";
	struct iovec v = {server ? (void *)(uintptr_t) "hello" : buf, 5};
	int fd = joined();
	long last;

	if (server) {
		T(pwritev2(fd, &v, 1, -1, 0));
		T(pwritev2(fd, &v, 1, 0, 0));
		T(pwritev(fd, &v, 1, 0));
		T(last = pwritev2(fd, &v, 1, -1, RWF_NOWAIT));
		tell(0, last < 0 ? 5 : 10);
		meet();
	} else {
		meet();
		await_bytes(fd, (int)asked(0));
		T(preadv2(fd, &v, 1, 0, 0));
		T(preadv(fd, &v, 1, 0));
		T(preadv2(fd, &v, 1, -1, 0));
		say("%s", buf);
		T(preadv2(fd, &v, 1, -1, RWF_NOWAIT));
	}
	meet();
}

static void file_sent(void)
{
	enum { LONG = 1000003 };
	int fd = joined(), file;
	off_t at = 1000;

	if (server) {
		file = scratch_file(2, LONG);
		T(sendfile(fd, file, &at, 5000));
		T((long)at);
		T(lseek(file, 0, SEEK_CUR));
		T(sendfile(fd, file, NULL, 1000));
		T(lseek(file, 0, SEEK_CUR));
		at = 2000;
		while (at < LONG)
			need(sendfile(fd, file, &at, 10 * LONG) > 0);
		T(sendfile(fd, file, &at, 5));
		T(sendfile(fd, -1, NULL, 5));
		T(sendfile(fd, fd, NULL, 5));
		at = -5;
		T(sendfile(fd, file, &at, 5));
		T(sendfile(fd, file, bad, 5));
		T(sendfile(file, fd, NULL, 5));
		T(shutdown(fd, SHUT_WR));
	} else {
		drink(fd, 2, 1000, 5000);
		drink(fd, 2, 0, 1000);
		drink(fd, 2, 2000, LONG - 2000);
		drain(fd);
	}
	meet();
}

static void spliced(void)
{
	int fd = joined(), pipes[2];
	loff_t at = 0;
	char buf[8] = "";

	need(!pipe(pipes));
	if (server) {
		need(write(pipes[1], "hello", 5) == 5);
		T(splice(pipes[0], NULL, fd, NULL, 5, 0));
		T(splice(pipes[0], NULL, fd, NULL, 5, SPLICE_F_NONBLOCK));
		T(splice(pipes[0], NULL, fd, &at, 5, 0));
	} else {
		await_bytes(fd, 5);
		T(splice(fd, NULL, pipes[1], NULL, 100, 0));
		T(read(pipes[0], buf, 8));
		say("%s", buf);
		nonblocking(fd, true);
		T(splice(fd, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
		nonblocking(fd, false);
		T(splice(fd, NULL, fd, NULL, 5, 0));
		T(tee(fd, pipes[1], 5, 0));
	}
	meet();
	T(shutdown(fd, SHUT_WR));
	if (!server)
		T(splice(fd, NULL, pipes[1], NULL, 100, 0));
	meet();
}

/* A proxy: from a socket through a pipe to a socket, which waits for its peer or is asked again. */
static void splice_through(bool waits)
{
	enum { LONG = 300000 };
	int listener, fds[2], pipes[2], n = 0;

	joined_more(&listener, fds, 2);
	if (!server) {
		pour(fds[0], 7, 0, LONG);
		T(shutdown(fds[0], SHUT_WR));
		drink(fds[1], 7, 0, LONG);
		drain(fds[1]);
		return;
	}
	need(!pipe(pipes));
	nonblocking(fds[1], !waits);
	for (;;) {
		ssize_t got = splice(fds[0], NULL, pipes[1], NULL, 30001, SPLICE_F_MOVE), put;

		if (got <= 0)
			break;
		for (n += (int)got; got > 0; got -= put) {
			put = splice(pipes[0], NULL, fds[1], NULL, (size_t)got, SPLICE_F_MORE);
			if (put < 0 && errno == EAGAIN && !waits) {
				struct pollfd room = {.fd = fds[1], .events = POLLOUT};

				need(poll(&room, 1, 10000) == 1);
				put = 0;
			} else if (put <= 0) {
				say("splice: %s", strerrorname_np(errno));
				_exit(1);
			}
		}
	}
	say("%d", n);
	T(shutdown(fds[1], SHUT_WR));
}

static void spliced_through(void)
{
	splice_through(true);
}

static void spliced_through_asking(void)
{
	splice_through(false);
}

static void spliced_memory(void)
{
	char text[] = "hello";
	struct iovec v = {text, 5};
	int fd = joined();

	T(vmsplice(fd, &v, 1, 0));
	meet();
}

static void counted(void)
{
	int fd = joined(), v = -1;

	T(ioctl(fd, FIONREAD, &v));
	say("%d", v);
	T(ioctl(fd, SIOCOUTQ, &v));
	say("%d", v);
	meet();
	T(send(fd, "hello", 5, 0));
	await_bytes(fd, 5);
	T(ioctl(fd, SIOCINQ, &v));
	say("%d", v);
	R(fd, 2, 0);
	T(ioctl(fd, FIONREAD, &v));
	say("%d", v);
	meet();
	for (int i = 0; i < 100 && v; i++, nap(10))
		need(!ioctl(fd, SIOCOUTQ, &v));
	say("%d", v); /* all is acknowledged */
	T(ioctl(fd, SIOCOUTQNSD, &v));
	say("%d", v);
	R(fd, 3, 0);
	meet();
	T(shutdown(fd, SHUT_WR));
	meet();
	nap(50);
	T(ioctl(fd, FIONREAD, &v));
	say("%d", v);
	T(ioctl(fd, FIONREAD, bad));
	T(ioctl(fd, 0x7777, &v));
	T(ioctl(fd, TIOCGWINSZ, bad));
}

/* What is sent without a copy is told of on the error queue. */
static void without_copy(void)
{
	int fd = joined(), one = 1;
	static char data[50000], control[256];
	struct msghdr m = {.msg_control = control, .msg_controllen = sizeof(control)};

	if (server) {
		memset(data, 'z', sizeof(data));
		if (T(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one))))
			one = 0;
		T(send(fd, data, sizeof(data), one ? MSG_ZEROCOPY : 0));
		meet();
		await_events(fd, POLLIN, one ? POLLERR : 0);
		T(recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT));
		say("%x", (unsigned)m.msg_flags);
		T(recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT));
	} else {
		R(fd, sizeof(data), MSG_WAITALL);
		meet();
	}
	meet();
}

/* Calls of _FORTIFY_SOURCE and of old: all of them are data. */
static void other_names(void)
{
	int fd = joined();
	char buf[16] = "";

	if (server) {
		T(dprintf(fd, "%s %d\n", "line", 7));
		T(write(fd, "abc", 3));
		T(send(fd, "def", 3, 0));
	} else {
		T(recv(fd, buf, 7, MSG_WAITALL));
		say("%.6s", buf);
		T(recvfrom(fd, buf, 6, MSG_WAITALL, NULL, NULL));
		say("%.6s", buf);
	}
	meet();
}

const struct test_case calls_cases[] = {
	CASE(vector_pieces),
	CASE(vector_many),
	CASE(vector_big),
	CASE(vector_wrong),
	CASE(message),
	CASE(message_addressed),
	CASE(messages),
	CASE(vector_at_offset),
	CASE(file_sent),
	CASE(spliced),
	CASE(spliced_through),
	CASE(spliced_through_asking),
	CASE(spliced_memory),
	CASE(counted),
	CASE(without_copy),
	CASE(other_names),
	{0},
};
