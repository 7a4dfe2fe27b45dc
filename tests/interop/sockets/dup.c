// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Numbers of a socket: doubled, closed in every way there is, taken by something else. */
#include <sys/stat.h>
#include <sys/syscall.h>

#include "case.h"

static int scratch_file(void)
{
	int fd = memfd_create("scratch", 0);

	need(fd >= 0);
	return fd;
}

/* The number of a closed socket is a file's now: what is written to it stays here. */
static void reused(int number)
{
	int file = scratch_file();
	char buf[8] = "";

	if (file != number) {
		need(dup2(file, number) == number);
		close(file);
	}
	T(write(number, "secret", 6));
	T(lseek(number, 0, SEEK_SET));
	T(read(number, buf, sizeof(buf)));
	say("%.6s", buf);
	meet();
}

static void closed_by(const char *what, void (*f)(int))
{
	int fd = joined();

	if (server) {
		say("%s", what);
		f(fd);
		T(fcntl(fd, F_GETFD));
		reused(fd);
	} else {
		drain(fd);
		meet();
	}
}

static void by_range(int fd)
{
	T(close_range((unsigned)fd, (unsigned)fd, 0));
}

static void by_raw_call(int fd)
{
	T(syscall(SYS_close_range, fd, fd, 0));
}

static void by_close_from(int fd)
{
	closefrom(fd);
}

static void by_fclose(int fd)
{
	FILE *f = fdopen(fd, "r+");

	need(f);
	T(fclose(f));
}

static void by_dup2(int fd)
{
	int file = scratch_file();

	need(dup2(file, fd) == fd);
	close(file);
	T(write(fd, "secret", 6));
	need(!close(fd));
}

static void by_dup3(int fd)
{
	int file = scratch_file();

	need(dup3(file, fd, O_CLOEXEC) == fd);
	close(file);
	need(!close(fd));
}

static void closed_by_range(void)
{
	closed_by("close_range()", by_range);
}

static void closed_by_call(void)
{
	closed_by("close_range() as a system call", by_raw_call);
}

static void closed_by_close_from(void)
{
	closed_by("closefrom()", by_close_from);
}

static void closed_by_fclose(void)
{
	closed_by("fclose()", by_fclose);
}

static void closed_by_dup2(void)
{
	closed_by("dup2()", by_dup2);
}

static void closed_by_dup3(void)
{
	closed_by("dup3()", by_dup3);
}

/* close_range() of what is to be closed on exec() closes nothing. */
static void range_to_flag(void)
{
	int fd = joined();

	if (server) {
		T(close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_CLOEXEC));
		T(fcntl(fd, F_GETFD));
		T(send(fd, "hello", 5, 0));
		T(close_range(5, 4, 0));
		T(close_range(5, 6, 77));
	} else {
		R(fd, 5, 0);
	}
	meet();
}

static void dup_all_ways(void)
{
	int fd = joined(), a, b, c, d, e;

	a = F(dup(fd));
	b = F(fcntl(fd, F_DUPFD, 100));
	say("100 or above: %d", b >= 100);
	c = F(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	T(fcntl(c, F_GETFD));
	T(fcntl(b, F_GETFD));
	d = T(dup2(fd, 150));
	e = T(dup3(fd, 151, O_CLOEXEC));
	T(fcntl(d, F_GETFD));
	T(fcntl(e, F_GETFD));
	T(dup2(fd, fd) == fd);
	T(dup3(fd, fd, 0));
	T(dup2(777, fd));
	T(dup2(fd, -1));
	T(dup3(fd, 152, O_NONBLOCK));
	T(dup(777));
	if (server) {
		T(send(a, "a", 1, 0));
		T(send(b, "b", 1, 0));
		T(write(c, "c", 1));
		T(close(fd));
		T(write(d, "d", 1));
		T(close(a));
		T(close(b));
		T(close(c));
		T(close(d));
		T(write(e, "e", 1));
		T(close(e));
	} else {
		R(a, 1, MSG_WAITALL);
		R(e, 2, MSG_WAITALL);
		R(d, 10, MSG_WAITALL);
	}
	meet();
}

/* What belongs to the socket all its numbers have; what to the number, each its own. */
static void dup_shares(void)
{
	int fd = joined(), other = F(dup(fd)), v = 0;
	char c;

	nonblocking(other, true);
	T(fcntl(fd, F_GETFL) & O_NONBLOCK);
	T(read(fd, &c, 1));
	v = 0;
	T(ioctl(fd, FIONBIO, &v));
	T(fcntl(other, F_GETFL) & O_NONBLOCK);
	T(fcntl(fd, F_SETFD, FD_CLOEXEC));
	T(fcntl(other, F_GETFD));
	v = 1;
	T(setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v)));
	v = 0;
	T(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &(socklen_t){sizeof(v)}));
	say("%d", v);
	meet();
	T(shutdown(other, SHUT_WR));
	T(send(fd, "x", 1, MSG_NOSIGNAL));
	drain(fd);
}

static void dup_before_connect(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, other, listener;

	if (server) {
		fd = listening();
		listener = F(dup(fd));
		T(close(fd));
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	} else {
		meet();
		fd = tcp_socket(0);
		other = F(dup(fd));
		T(connect(fd, SA(&a), sizeof(a)));
		T(connect(other, SA(&a), sizeof(a)));
		T(send(other, "hello", 5, 0));
		T(close(other));
		T(send(fd, "there", 5, 0));
		T(close(fd));
	}
	meet();
}

static void dup_before_listen(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, other, got;

	if (server) {
		fd = tcp_socket(0);
		other = F(dup(fd));
		T(bind(fd, SA(&a), sizeof(a)));
		T(listen(other, 5));
		T(close(other));
		meet();
		got = F(accept(fd, NULL, NULL));
		drain(got);
	} else {
		meet();
		fd = connected();
		T(send(fd, "hello", 5, 0));
		T(close(fd));
	}
	meet();
}

/* As inetd has it: standard input and output. */
static void dup_standard(void)
{
	int fd = joined();
	char line[16] = "";

	T(dup2(fd, 0));
	T(dup2(fd, 1));
	T(close(fd));
	if (server) {
		printf("hello, %d\n", 7);
		T(fflush(stdout));
		T(scanf("%15s", line));
	} else {
		T(scanf("%*s %15s", line));
		T(puts("answer"));
		T(fflush(stdout));
	}
	say("%s", line);
	meet();
}

/* The lowest that is free, as POSIX has it. */
static void lowest_number(void)
{
	int fd, first, second, third, listener;

	first = tcp_socket(0);
	second = tcp_socket(0);
	T(second - first);
	T(close(first));
	third = tcp_socket(0);
	T(third - first);
	T(close(third));
	T(close(second));
	if (server) {
		listener = listening();
		meet();
		fd = accept(listener, NULL, NULL);
		T(fd - listener);
		T(close(fd));
		meet();
		fd = accept(listener, NULL, NULL);
		T(fd - listener);
	} else {
		meet();
		fd = connected();
		T(fd - first);
		third = open("/dev/null", O_RDONLY);
		T(third - fd);
		meet();
		T(close(fd));
		fd = connected();
		T(fd - first);
	}
	meet();
}

/* Programs number their descriptors and have tables as long as the highest. */
static void first_number(void)
{
	int fd = tcp_socket(0);

	T(fd);
	T(close(fd));
	fd = joined();
	say("%d", fd);
	meet();
}

static void what_it_is(void)
{
	int fd = joined(), v;
	struct stat st;
	char link[32], path[64];
	off_t off = 0;

	T(fstat(fd, &st));
	say("a socket: %d, %o", S_ISSOCK(st.st_mode), st.st_mode & 07777);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	v = (int)readlink(path, link, sizeof(link));
	say("%.7s", v > 7 ? link : "?");
	T(isatty(fd));
	T(lseek(fd, 0, SEEK_CUR));
	T(ftruncate(fd, 0));
	T(fsync(fd));
	T(pread(fd, path, 5, 0));
	T(pwrite(fd, path, 5, 0));
	T(fallocate(fd, 0, 0, 10));
	T(posix_fadvise(fd, 0, 0, 0));
	T(copy_file_range(fd, &off, fd, &off, 5, 0));
	T(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	T(openat(fd, "x", O_RDONLY));
	T(fchdir(fd));
	T(fcntl(fd, F_GETFL) == O_RDWR);
	T(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
	T(fcntl(fd, F_GETFL) == (O_RDWR | O_APPEND | O_NONBLOCK));
	T(fcntl(fd, F_GETOWN));
	T(fcntl(fd, 7777));
	T(fcntl(fd, F_GETPIPE_SZ));
	meet();
}

static int pass(int through, int fd)
{
	char c = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	return (int)sendmsg(through, &m, 0);
}

static int got_by(int through)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd;

	need(recvmsg(through, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* A connection passed on: to oneself, and to another process. */
static void passed_to_itself(void)
{
	int fd = joined(), pair[2], got;

	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	if (server) {
		T(pass(pair[0], fd));
		got = F(got_by(pair[1]));
		T(send(fd, "one", 3, 0));
		T(close(fd));
		T(send(got, "two", 3, 0));
		T(close(got));
	} else {
		drain(fd);
	}
	meet();
}

static void passed_to_child(void)
{
	int fd = -1, pair[2], got;
	pid_t pid = -1;

	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	if (server) {
		pid = fork();
		if (!pid) {
			got = F(got_by(pair[1]));
			R(got, 5, MSG_WAITALL);
			T(send(got, "answer", 6, 0));
			_exit(0);
		}
	}
	fd = joined();
	if (server) {
		need(pass(pair[0], fd) == 1 && !close(fd));
		reap(pid);
	} else {
		T(send(fd, "hello", 5, 0));
		drain(fd);
	}
	meet();
}

const struct test_case dup_cases[] = {
	CASE(closed_by_range),	  CASE(closed_by_call),	   CASE(closed_by_close_from),
	CASE(closed_by_fclose),	  CASE(closed_by_dup2),	   CASE(closed_by_dup3),
	CASE(range_to_flag),	  CASE(dup_all_ways),	   CASE(dup_shares),
	CASE(dup_before_connect), CASE(dup_before_listen), CASE(dup_standard),
	CASE(lowest_number),	  CASE(first_number),	   CASE(what_it_is),
	CASE(passed_to_itself),	  CASE(passed_to_child),   {0},
};
