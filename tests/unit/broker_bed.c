/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker_bed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "port/udp/udp_socket.h"
#include "wire/bth.h"

char bed_err[512];

struct broker_client *bed_client(void)
{
	struct broker_client *c = NULL;
	int rc = broker_client_open(&c, bed_err, sizeof(bed_err));

	if (rc)
		print_message("%s\n", bed_err);
	assert_int_equal(rc, 0);
	return c;
}

/* A socket, and connect() or bind() with the broker's name; -1: it failed. */
static int named(int (*how)(int fd, const struct sockaddr *a, socklen_t len))
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(BROKER_SOCKET_NAME));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	if (how(fd, (struct sockaddr *)&a, len) == 0)
		return fd;
	close(fd);
	return -1;
}

int bed_raw_connection(void)
{
	return named(connect);
}

int bed_connection(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un a = {0};
		socklen_t len = sizeof(a);

		if (getpeername(fd, (struct sockaddr *)&a, &len) == 0 && a.sun_family == AF_UNIX &&
		    !strcmp(a.sun_path + 1, BROKER_SOCKET_NAME))
			return fd;
	}
	return -1;
}

static bool name_is_free(void)
{
	int fd = named(bind);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

pid_t bed_broker_pid(void)
{
	int fd = bed_raw_connection();
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (fd >= 0)
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	close(fd);
	return peer.pid;
}

bool bed_ended(pid_t pid)
{
	char path[64], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return true;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	return strstr(line, ") Z ") != NULL;
}

int bed_fresh(void **state)
{
	(void)state;
	/* Who ends closes one after the other: thousands of connections, watched by a sanitizer on
	 * a machine that has other work. */
	if (eventually(60000, udp_port_is_free() == 0 && name_is_free()))
		return 0;
	print_message("the broker of the test before has not ended: its %s is in use\n",
		      udp_port_is_free() == 0 ? "name" : "port");
	return -1;
}

int bed_lease(struct broker_client *c, uint8_t *slot)
{
	int fd = -1;

	assert_int_equal(broker_client_lease_slot(c, slot, &fd), 0);
	assert_true(*slot >= 1);
	assert_true(fd >= 0);
	return fd;
}

void bed_send(const char *addr, uint8_t slot, const char *text)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(ROCEV2_UDP_PORT)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char b[32] = {0};

	inet_pton(AF_INET6, addr, &to.sin6_addr);
	b[5] = (char)slot;
	strcpy(b + 12, text);
	assert_int_equal(sendto(fd, b, sizeof(b), 0, (void *)&to, sizeof(to)), sizeof(b));
	close(fd);
}

const char *bed_text(int fd)
{
	static char b[64];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	memset(b, 0, sizeof(b));
	if (poll(&p, 1, 0) > 0)
		assert_int_equal(recv(fd, b, sizeof(b), 0), 32);
	return b + 12;
}

bool bed_reaches(int fd, uint8_t slot)
{
	static unsigned count;
	char text[16];

	while (*bed_text(fd))
		;
	snprintf(text, sizeof(text), "no %u", ++count);
	bed_send("::ffff:127.0.0.1", slot, text);
	return !strcmp(bed_text(fd), text);
}

int bed_open_as(uid_t uid, char *text, size_t len)
{
	int out[2], status;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		struct broker_client *c;
		int rc;

		if (setuid(uid) < 0)
			_exit(255);
		rc = broker_client_open(&c, bed_err, sizeof(bed_err));
		if (write(out[1], bed_err, strlen(bed_err) + 1) < 0)
			_exit(254);
		_exit(-rc);
	}
	close(out[1]);
	memset(text, 0, len);
	assert_true(read(out[0], text, len - 1) > 0);
	close(out[0]);
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}
