// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Data by the less common calls: many messages, pipes and files, flags, offsets, no bytes at all,
 * and addresses where no memory is. */
#include <sys/sendfile.h>
#include <sys/time.h>

#include "case.h"

static char buf[1 << 16];
static char hello[] = "hello", world[] = "world!";

/* The client sends by whatever call, the server says what came. */
static int sender(void)
{
	int fd = joined();

	on_signal(SIGPIPE, SA_RESTART);
	if (!server)
		return fd;
	drain(fd);
	_exit(0);
}

static void end_of(int fd)
{
	need(!shutdown(fd, SHUT_WR));
}

static void show_signals(void)
{
	say("signals: %d", signals);
}

/* The server sends that, and the client has it to be read; _exit(0) there. */
static int reader(const char *what)
{
	int fd = joined();

	if (server) {
		need(send(fd, what, strlen(what), 0) == (ssize_t)strlen(what));
		meet();
		meet();
		_exit(0);
	}
	meet();
	await_bytes(fd, (int)strlen(what));
	return fd;
}

static int file_of(const char *what)
{
	int fd = memfd_create("file", 0);

	need(write(fd, what, strlen(what)) == (ssize_t)strlen(what) && !lseek(fd, 0, SEEK_SET));
	return fd;
}

/* ---- many messages --------------------------------------------------------------------------- */

static void moved_sendmmsg(void)
{
	int fd = sender();
	struct iovec iov[] = {{hello, 5}, {world, 6}};
	struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}},
			      {.msg_hdr = {.msg_iov = iov + 1, .msg_iovlen = 1}}};

	T(sendmmsg(fd, m, 2, 0));
	say("%u %u", m[0].msg_len, m[1].msg_len);
	T(sendmmsg(fd, m, 0, 0));
	end_of(fd);
	T(sendmmsg(fd, m, 2, MSG_NOSIGNAL));
	show_signals();
	T(sendmmsg(fd, m, 2, 0));
	show_signals();
}

static void moved_recvmmsg(void)
{
	int fd = reader("hello there");
	char a[4], b[32];
	struct iovec iov[] = {{a, sizeof(a)}, {b, sizeof(b)}};
	struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}},
			      {.msg_hdr = {.msg_iov = iov + 1, .msg_iovlen = 1}}};

	T(recvmmsg(fd, m, 2, 0, NULL));
	say("%u %u %.4s %.7s", m[0].msg_len, m[1].msg_len, a, b);
	T(recvmmsg(fd, m, 2, MSG_DONTWAIT, NULL));
	meet();
}

static void moved_recvmmsg_one(void)
{
	int fd = reader("hello");
	struct iovec iov = {buf, sizeof(buf)};
	struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}},
			      {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}}};

	T(recvmmsg(fd, m, 2, MSG_WAITFORONE, NULL));
	say("%u", m[0].msg_len);
	meet();
}

static void control_data(void)
{
	int fd = sender();
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {hello, 5};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	T(sendmsg(fd, &msg, 0));
	c->cmsg_type = 77;
	T(sendmsg(fd, &msg, 0));
	c->cmsg_len = 1;
	T(sendmsg(fd, &msg, 0));
}

/* ---- pipes and files ------------------------------------------------------------------------- */

static void moved_splice_out(void)
{
	int fd = sender(), p[2];
	off64_t offset = 0;

	need(!pipe(p) && write(p[1], "hello", 5) == 5);
	T(splice(p[0], NULL, fd, NULL, 3, 0));
	T(splice(p[0], NULL, fd, NULL, 100, 0));
	T(splice(p[0], NULL, fd, NULL, 5, SPLICE_F_NONBLOCK));
	T(splice(p[0], NULL, fd, &offset, 5, 0));
	close(p[1]);
	T(splice(p[0], NULL, fd, NULL, 5, 0));
	need(!pipe(p) && write(p[1], "hello", 5) == 5);
	end_of(fd);
	T(splice(p[0], NULL, fd, NULL, 5, 0));
	show_signals();
}

static void moved_splice_in(void)
{
	int fd = reader("hello there"), p[2];

	need(!pipe(p));
	T(splice(fd, NULL, p[1], NULL, 3, 0));
	T(splice(fd, NULL, p[1], NULL, 300, 0));
	nonblocking(fd, true);
	T(splice(fd, NULL, p[1], NULL, 300, 0));
	T(splice(fd, NULL, fd, NULL, 300, 0));
	T(splice(fd, NULL, file_of(""), NULL, 300, 0));
	show("pipe", buf, read(p[0], buf, sizeof(buf)));
	meet();
}

/* What a pipe that is all but full takes, and nothing of the rest is lost. */
static void moved_splice_to_full(void)
{
	int fd = joined();

	if (server) {
		pour(fd, 1, 0, 40000);
	} else {
		int p[2];

		need(!pipe(p) && fcntl(p[1], F_SETPIPE_SZ, 4096) == 4096);
		await_bytes(fd, 40000);
		for (size_t n = 0; n < 40000;) {
			const ssize_t in = splice(fd, NULL, p[1], NULL, 40000 - n, 0);

			need(in > 0 && read(p[0], buf + n, sizeof(buf) - n) == in);
			n += (size_t)in;
		}
		say("%08x", digest(0, buf, 40000));
	}
	meet();
}

static void moved_sendfile(void)
{
	int fd = sender(), file = file_of("hello"), p[2];
	off_t offset = 1;

	T(sendfile(fd, file, NULL, 3));
	T(sendfile(fd, file, &offset, 50));
	say("offset %ld", (long)offset);
	T(sendfile(fd, file, NULL, (size_t)minus));
	T(sendfile(fd, file, bad, 5));
	T(sendfile(fd, open("/", O_RDONLY), NULL, 5));
	T(sendfile(fd, -1, NULL, 5));
	need(!pipe(p) && write(p[1], "pipe", 4) == 4);
	T(sendfile(fd, p[0], NULL, 4));
	T(copy_file_range(file, NULL, fd, NULL, 5, 0));
	end_of(fd);
	offset = 0;
	T(sendfile(fd, file, &offset, 5));
	show_signals();
}

static void moved_sendfile_in(void)
{
	int fd = reader("hello there"), file = file_of(""), p[2];
	off_t offset = 0;

	need(!pipe(p));
	T(sendfile(file, fd, NULL, 5));
	T(sendfile(p[1], fd, &offset, 5));
	T(sendfile(p[1], fd, NULL, 5));
	T(copy_file_range(fd, NULL, file, NULL, 5, 0));
	R(fd, 20, 0);
	meet();
}

/* ---- offsets, flags, vectors ----------------------------------------------------------------- */

static void moved_preadv2(void)
{
	int fd = reader("hello");
	struct iovec iov = {buf, 2};

	T(preadv2(fd, &iov, 1, -1, 0));
	T(preadv2(fd, &iov, 1, 0, 0));
	T(preadv(fd, &iov, 1, 0));
	T(pread(fd, buf, 2, 0));
	T(preadv2(fd, &iov, 1, -1, RWF_NOWAIT));
	T(preadv2(fd, &iov, 1, -1, 0));
	T(preadv2(fd, &iov, 1, -1, RWF_NOWAIT));
	T(preadv2(fd, &iov, 1, -1, 0x40000000));
	meet();
}

static void moved_pwritev2(void)
{
	int fd = sender();
	struct iovec iov = {hello, 5};

	T(pwritev2(fd, &iov, 1, -1, 0));
	T(pwritev2(fd, &iov, 1, 0, 0));
	T(pwritev(fd, &iov, 1, 0));
	T(pwrite(fd, "x", 1, 0));
	T(pwritev2(fd, &iov, 1, -1, RWF_NOWAIT));
	T(lseek(fd, 0, SEEK_CUR));
	end_of(fd);
	T(pwritev2(fd, &iov, 1, -1, 0));
	show_signals();
}

static void vectors(void)
{
	static struct iovec v[1025];
	int fd = reader("hello");
	struct msghdr msg = {.msg_iov = v, .msg_iovlen = 1025};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++)
		v[i] = (struct iovec){buf, 1};
	T(writev(fd, v, 1025));
	T(writev(fd, v, 1024));
	T(writev(fd, v, 0));
	T(writev(fd, v, minus));
	T(readv(fd, v, 1025));
	T(readv(fd, v, 0));
	T(readv(fd, v, minus));
	T(sendmsg(fd, &msg, 0));
	T(recvmsg(fd, &msg, 0));
	msg.msg_iovlen = 0;
	T(sendmsg(fd, &msg, 0));
	v[0].iov_len = SIZE_MAX;
	T(writev(fd, v, 1));
	T(readv(fd, v, 1));
	v[0] = (struct iovec){0};
	T(writev(fd, v, 2));
	meet();
}

static void no_bytes(void)
{
	int fd = reader("x");
	const struct timeval t = {0, 200000};

	on_signal(SIGPIPE, SA_RESTART);
	T(send(fd, buf, 0, 0));
	T(recv(fd, buf, 0, 0));
	T(recv(fd, buf, 0, MSG_PEEK));
	R(fd, 1, 0);
	T(recv(fd, buf, 0, MSG_DONTWAIT));
	T(read(fd, buf, 0));
	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	T(recv(fd, buf, 0, 0)); /* until then */
	end_of(fd);
	T(send(fd, buf, 0, MSG_NOSIGNAL));
	show_signals();
	T(write(fd, buf, 0));
	show_signals();
	T(writev(fd, &(struct iovec){buf, 0}, 1));
	meet();
}

static void peek_at_all(void)
{
	int fd = reader("abc");
	const struct timeval t = {0, 200000};

	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
	R(fd, 6, MSG_PEEK);
	R(fd, 6, MSG_PEEK | MSG_WAITALL);
	R(fd, 6, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT);
	R(fd, 6, MSG_WAITALL);
	R(fd, 6, MSG_WAITALL);
	meet();
}

static void peek_until_all(void)
{
	int fd = joined();

	if (server) {
		need(send(fd, "abc", 3, 0) == 3);
		meet();
		nap(200);
		need(send(fd, "def", 3, 0) == 3);
	} else {
		meet();
		R(fd, 6, MSG_PEEK | MSG_WAITALL);
		R(fd, 6, MSG_WAITALL);
	}
	meet();
}

static void thrown_away(void)
{
	int fd = reader("abcdef");

	memset(buf, '.', 4);
	T(recv(fd, buf, 3, MSG_TRUNC));
	say("%.4s", buf);
	T(recv(fd, NULL, 1, MSG_TRUNC));
	R(fd, 8, 0);
	R(fd, 8, MSG_ERRQUEUE);
	meet();
}

/* ---- where no memory is ---------------------------------------------------------------------- */

/* A page that is there, one that is for nobody; unmapped, it would be taken by who maps next. */
static char *edge(int prot)
{
	char *p = mmap(NULL, 8192, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(p != MAP_FAILED && !mprotect(p + 4096, 4096, PROT_NONE));
	return p;
}

static void nowhere_to_send(void)
{
	int fd = joined();
	char *p = edge(PROT_READ);
	struct msghdr msg = {.msg_iov = bad, .msg_iovlen = 1};
	struct iovec iov[] = {{hello, 3}, {bad, 5}};
	ssize_t n;

	if (server) { /* how much goes is chance */
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
		meet();
		return;
	}
	T(send(fd, bad, 5, 0));
	T(send(fd, nowhere, 5, 0));
	T(write(fd, (void *)(intptr_t)minus, 5));
	T(write(fd, bad, 50000));
	T(writev(fd, bad, 1));
	T(writev(fd, iov, 2));
	T(sendmsg(fd, bad, 0));
	T(sendmsg(fd, nowhere, 0));
	T(sendmsg(fd, &msg, 0));
	T(write(fd, p + 4000, 200));
	T(write(fd, p + 4096, 10));
	T(write(fd, p + 4090, 6));
	need(!mprotect(p, 4096, PROT_NONE));
	T(write(fd, p, 10));
	p = mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(!mprotect(p + (1 << 20), 1 << 20, PROT_NONE));
	n = write(fd, p, 2 << 20);
	need(n > 0 && n <= 1 << 20);
	say("in part");
	end_of(fd);
	meet();
}

static void nowhere_to_receive(void)
{
	int fd = reader("hello there, and more than that"), n;
	struct msghdr msg = {.msg_iov = bad, .msg_iovlen = 1};
	struct iovec iov[] = {{buf, 3}, {bad, 5}};
	char *p = edge(PROT_READ | PROT_WRITE);

	T(recv(fd, bad, 5, 0));
	T(recv(fd, nowhere, 5, 0));
	T(read(fd, (void *)(intptr_t)minus, 5));
	T(recv(fd, bad, 50, 0));
	T(readv(fd, bad, 1));
	T(readv(fd, iov, 2));
	T(recvmsg(fd, bad, 0));
	T(recvmsg(fd, nowhere, 0));
	T(recvmsg(fd, &msg, 0));
	T(read(fd, p + 4090, 200));
	T(read(fd, p + 4096, 10));
	need(!mprotect(p, 4096, PROT_READ));
	T(read(fd, p, 3));
	T(read(fd, p, 20));
	T(recv(fd, p, 20, MSG_PEEK));
	T(getpeername(fd, bad, &(socklen_t){sizeof(struct sockaddr_in)}));
	T(getsockname(fd, SA(buf), bad));
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, bad, &(socklen_t){sizeof(int)}));
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, bad));
	T(ioctl(fd, FIONREAD, bad));
	T(poll(bad, 1, 0));
	T(select(fd + 1, bad, NULL, NULL, NULL));
	R(fd, 40, 0);
	meet();
}

static void nowhere_to_connect(void)
{
	if (!server) {
		struct sockaddr_in to = at(true, port(0));
		int fd = tcp_socket(0);

		T(connect(fd, bad, sizeof(to)));
		T(connect(fd, nowhere, sizeof(to)));
		T(bind(fd, bad, sizeof(to)));
		T(connect(fd, SA(&to), 1));
		T(connect(fd, SA(&to), 200));
		to.sin_family = 99;
		T(connect(fd, SA(&to), sizeof(to)));
	}
	meet();
}

const struct test_case moved_cases[] = {
	CASE(moved_sendmmsg),
	CASE(moved_recvmmsg),
	CASE(moved_recvmmsg_one),
	CASE(control_data),
	CASE(moved_splice_out),
	CASE(moved_splice_in),
	CASE(moved_splice_to_full),
	CASE(moved_sendfile),
	CASE(moved_sendfile_in),
	CASE(moved_preadv2),
	CASE(moved_pwritev2),
	CASE(vectors),
	CASE(no_bytes),
	CASE(peek_at_all),
	CASE(peek_until_all),
	CASE(thrown_away),
	CASE(nowhere_to_send),
	CASE(nowhere_to_receive),
	CASE(nowhere_to_connect),
	{0},
};
