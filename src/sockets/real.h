/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The C library's own functions, behind ours of the same names. */
#ifndef WEFT_SOCKETS_REAL_H
#define WEFT_SOCKETS_REAL_H

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#define REAL_FUNCTIONS(X)                                                                        \
	X(int, socket, (int, int, int))                                                          \
	X(int, bind, (int, const struct sockaddr *, socklen_t))                                  \
	X(int, listen, (int, int))                                                               \
	X(int, accept4, (int, struct sockaddr *, socklen_t *, int))                              \
	X(int, connect, (int, const struct sockaddr *, socklen_t))                               \
	X(int, shutdown, (int, int))                                                             \
	X(int, getpeername, (int, struct sockaddr *, socklen_t *))                               \
	X(int, getsockname, (int, struct sockaddr *, socklen_t *))                               \
	X(int, setsockopt, (int, int, int, const void *, socklen_t))                             \
	X(int, getsockopt, (int, int, int, void *, socklen_t *))                                 \
	X(ssize_t, recv, (int, void *, size_t, int))                                             \
	X(ssize_t, recvfrom, (int, void *, size_t, int, struct sockaddr *, socklen_t *))         \
	X(ssize_t, recvmsg, (int, struct msghdr *, int))                                         \
	X(ssize_t, read, (int, void *, size_t))                                                  \
	X(ssize_t, readv, (int, const struct iovec *, int))                                      \
	X(ssize_t, send, (int, const void *, size_t, int))                                       \
	X(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t)) \
	X(ssize_t, sendmsg, (int, const struct msghdr *, int))                                   \
	X(ssize_t, write, (int, const void *, size_t))                                           \
	X(ssize_t, writev, (int, const struct iovec *, int))                                     \
	X(ssize_t, sendfile64, (int, int, int64_t *, size_t))                                    \
	X(int, close, (int))                                                                     \
	X(int, close_range, (unsigned int, unsigned int, int))                                   \
	X(FILE *, fdopen, (int, const char *))                                                   \
	X(int, fclose, (FILE *))                                                                 \
	X(FILE *, freopen64, (const char *, const char *, FILE *))                               \
	X(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t *, int, int))       \
	X(int, vdprintf, (int, const char *, va_list))                                           \
	X(void, _exit, (int))                                                                    \
	X(int, execve, (const char *, char *const *, char *const *))                             \
	X(int, execvpe, (const char *, char *const *, char *const *))                            \
	X(int, fexecve, (int, char *const *, char *const *))                                     \
	X(int, execveat, (int, const char *, char *const *, char *const *, int))                 \
	X(int, dup, (int))                                                                       \
	X(int, dup2, (int, int))                                                                 \
	X(int, dup3, (int, int, int))                                                            \
	X(int, fcntl64, (int, int, ...))                                                         \
	X(int, ioctl, (int, unsigned long, ...))                                                 \
	X(int, poll, (struct pollfd *, nfds_t, int))                                             \
	X(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))      \
	X(int, select, (int, fd_set *, fd_set *, fd_set *, struct timeval *))                    \
	X(int, pselect,                                                                          \
	  (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))        \
	X(int, eventfd, (unsigned int, int))                                                     \
	X(int, pipe2, (int *, int))                                                              \
	X(int, memfd_create, (const char *, unsigned int))                                       \
	X(int, epoll_create1, (int))                                                             \
	X(int, epoll_ctl, (int, int, int, struct epoll_event *))                                 \
	X(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))             \
	X(int, sigaction, (int, const struct sigaction *, struct sigaction *))                   \
	X(int, recvmmsg, (int, struct mmsghdr *, unsigned int, int, struct timespec *))          \
	X(int, sendmmsg, (int, struct mmsghdr *, unsigned int, int))                             \
	X(ssize_t, preadv64v2, (int, const struct iovec *, int, int64_t, int))                   \
	X(ssize_t, pwritev64v2, (int, const struct iovec *, int, int64_t, int))                  \
	X(ssize_t, splice, (int, int64_t *, int, int64_t *, size_t, unsigned int))

/* Of what a sanitizer calls before it is ready itself, where we are built with one. */
#ifdef __clang__
#define NOT_SANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define NOT_SANITIZED
#endif

struct real {
#define REAL_MEMBER(ret, name, args) ret(*name) args;
	REAL_FUNCTIONS(REAL_MEMBER)
#undef REAL_MEMBER
};

/* Looked up when first needed: other libraries' constructors may call before ours has run. */
const struct real *real(void);

#endif
