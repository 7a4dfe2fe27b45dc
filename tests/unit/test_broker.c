/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The broker as its clients see it: started on demand, leases, devices, its end. In a network
 * namespace of its own; WEFT_BROKER (set by Meson) names the weft that is tested. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/time.h"
#include "broker/client.h"
#include "broker/fd_msg.h"
#include "broker/leases.h"
#include "broker/spawn.h"
#include "broker_bed.h"
#include "netns.h"
#include "port/udp/udp_socket.h"
#include "wire/path_probe.h"

/* Asks what path MTU carries: the length of the answer, 0 for none. */
static size_t ask_way(const char *addr, uint8_t mtu, size_t len)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(ROCEV2_UDP_PORT)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint8_t b[8192] = {0};
	struct path_probe probe = {PATH_PROBE_ASK, 7, mtu, 0x0123456789abcdef};
	ssize_t n = 0;

	inet_pton(AF_INET6, addr, &to.sin6_addr);
	path_probe_encode(&probe, b);
	/* Connected: takes an answer from the address that was asked, and no other. */
	assert_int_equal(connect(fd, (void *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, b, len, 0), len);
	if (poll(&p, 1, 200) > 0) {
		n = recv(fd, b, sizeof(b), 0);
		assert_true(n > 0);
		assert_true(path_probe_decode(&probe, b, (size_t)n));
		assert_int_equal(probe.kind, PATH_PROBE_ANSWER);
		assert_int_equal(probe.id, 7);
		assert_int_equal(probe.mtu, mtu);
		assert_int_equal(probe.token, 0x0123456789abcdef);
	}
	close(fd);
	return (size_t)n;
}

static void who_asks_for_a_path_mtu_gets_an_answer_as_long(void **state)
{
	static const char *const addresses[] = {"::1", "::ffff:127.0.0.1", "::ffff:127.0.0.9"};
	struct broker_client *c = bed_client();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		for (uint8_t mtu = 1; mtu <= 5; mtu++)
			assert_int_equal(ask_way(addresses[i], mtu, path_probe_ip_len(mtu) - 28),
					 path_probe_ip_len(mtu) - 28);
	/* Too long, too short, and for a path MTU that there is not. */
	assert_int_equal(ask_way("::1", 5, PATH_PROBE_MAX + 1), 0);
	assert_int_equal(ask_way("::1", 5, PATH_PROBE_LEN - 1), 0);
	assert_int_equal(ask_way("::1", 6, 1000), 0);
	broker_client_close(c);
}

/* The class in which a datagram came. */
static uint8_t class_of(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
			return *CMSG_DATA(c);
	return 0;
}

static void who_asks_for_more_is_told_it_and_answered_in_his_class(void **state)
{
	static const char *const addresses[] = {"::1", "::ffff:127.0.0.1"};
	struct broker_client *client = bed_client();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct sockaddr_in6 to = {.sin6_family = AF_INET6,
					  .sin6_port = htons(ROCEV2_UDP_PORT)};
		struct path_probe probe = {PATH_PROBE_ASK, 7, 1, 99, true, 192};
		int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, tos = 107;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint8_t b[PATH_PROBE_TOLD] = {0}, control[256];
		struct iovec iov = {b, sizeof(b)};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct path_probe_told told;

		inet_pton(AF_INET6, addresses[i], &to.sin6_addr);
		setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
		setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
		path_probe_encode(&probe, b);
		assert_int_equal(connect(fd, (void *)&to, sizeof(to)), 0);
		assert_int_equal(send(fd, b, sizeof(b), 0), sizeof(b));
		assert_int_equal(poll(&p, 1, 1000), 1);
		assert_int_equal(recvmsg(fd, &m, 0), sizeof(b));
		assert_true(path_probe_decode(&probe, b, sizeof(b)));
		assert_int_equal(probe.kind, PATH_PROBE_ANSWER);
		assert_true(probe.more);
		assert_int_equal(probe.tos, 107); /* what the question had */
		assert_int_equal(class_of(&m), 192);
		told = path_probe_hear(b);
		assert_int_equal(told.mtu, 65536); /* loopback's */
		assert_true(told.room > 0);
		close(fd);
	}
	broker_client_close(client);
}

static void who_asks_by_the_thousand_is_not_always_answered(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCEV2_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), answers = 0;
	struct path_probe probe = {PATH_PROBE_ASK, 7, 3, 1};
	struct broker_client *c = bed_client();
	uint8_t b[PATH_PROBE_MAX] = {0};
	uint64_t ms, began;

	(void)state;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (void *)&to, sizeof(to)), 0);
	began = time_now_ns();
	for (int i = 0; i < 3000; i++) {
		path_probe_encode(&probe, b);
		assert_int_equal(send(fd, b, PATH_PROBE_LEN, 0), PATH_PROBE_LEN);
		if (i % 32 == 0) /* no more than its socket holds */
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		while (recv(fd, b, sizeof(b), MSG_DONTWAIT) > 0)
			answers++;
	}
	/* 1000 a second, and some at once; as long as it took. */
	ms = (time_now_ns() - began) / NSEC_PER_MSEC;
	assert_in_range(answers, 200, 500 + ms);
	close(fd);
	broker_client_close(c);
}

static void it_starts_on_demand_and_ends_after_its_last_client(void **state)
{
	struct broker_client *a, *b;
	pid_t pid;

	(void)state;
	assert_int_equal(bed_broker_pid(), 0);
	a = bed_client();
	pid = bed_broker_pid();
	assert_true(pid > 0);
	b = bed_client();
	assert_int_equal(bed_broker_pid(), pid);
	/* It is nobody's child: nothing to wait for. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	broker_client_close(a);
	nanosleep(&(struct timespec){.tv_nsec = 800000000}, NULL);
	assert_int_equal(bed_broker_pid(), pid);
	broker_client_close(b);
	assert_int_equal(bed_fresh(NULL), 0);
	assert_true(eventually(1000, bed_ended(pid)));
	assert_int_equal(bed_broker_pid(), 0);
}

static void many_starters_at_once_find_one_broker(void **state)
{
	enum { N = 12 };
	uint8_t slot;
	pid_t child[N], pid;
	int go[2], status, fd;
	struct broker_client *c;

	(void)state;
	assert_int_equal(pipe(go), 0);
	for (int i = 0; i < N; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			char b;

			close(go[1]);
			if (read(go[0], &b, 1) < 0 ||
			    broker_client_open(&c, bed_err, sizeof(bed_err)) ||
			    broker_client_lease_slot(c, &slot, &fd))
				_exit(255);
			sleep(1);
			_exit(slot);
		}
	}
	close(go[0]);
	close(go[1]);
	assert_true(eventually(5000, (pid = bed_broker_pid()) > 0));
	uint8_t seen[256] = {0};
	for (int i = 0; i < N; i++) {
		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 1, N);
		assert_int_equal(seen[WEXITSTATUS(status)]++, 0);
	}
}

static void packets_reach_the_slot_they_name(void **state)
{
	struct broker_client *a = bed_client(), *b = bed_client();
	uint8_t slot[3];
	int fd[3] = {bed_lease(a, &slot[0]), bed_lease(b, &slot[1]), bed_lease(b, &slot[2])};
	static const char *const to[] = {"::ffff:127.0.0.1", "::1"};

	(void)state;
	for (size_t v = 0; v < 2; v++) {
		for (int i = 0; i < 3; i++) {
			char text[8];

			snprintf(text, sizeof(text), "s%u", slot[i]);
			bed_send(to[v], slot[i], text);
		}
		for (int i = 0; i < 3; i++) {
			char text[8];

			snprintf(text, sizeof(text), "s%u", slot[i]);
			assert_string_equal(bed_text(fd[i]), text);
			assert_string_equal(bed_text(fd[i]), "");
		}
	}
	/* Closing one's copy moves nobody's slot. */
	close(fd[0]);
	bed_send(to[0], slot[2], "last");
	assert_string_equal(bed_text(fd[1]), "");
	assert_string_equal(bed_text(fd[2]), "last");
	close(fd[1]);
	close(fd[2]);
	broker_client_close(a);
	broker_client_close(b);
}

static void a_killed_clients_slot_is_freed_rested_and_drained(void **state)
{
	struct broker_client *keep = bed_client(), *c;
	uint8_t slot, mine, again;
	int report[2], fd, mine_fd = bed_lease(keep, &mine);
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(report), 0);
	pid = fork();
	if (pid == 0) {
		if (broker_client_open(&c, bed_err, sizeof(bed_err)) ||
		    broker_client_lease_slot(c, &slot, &fd) || write(report[1], &slot, 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(report[0], &slot, 1), 1);
	assert_int_not_equal(slot, mine);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	bed_send("::ffff:127.0.0.1", slot, "stale");
	/* At first another one is given out, then this one again, with nothing in it. */
	fd = bed_lease(keep, &again);
	assert_int_not_equal(again, slot);
	close(fd);
	nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
	fd = bed_lease(keep, &again);
	assert_int_equal(again, slot);
	assert_string_equal(bed_text(fd), "");
	close(fd);
	close(mine_fd);
	close(report[0]);
	close(report[1]);
	broker_client_close(keep);
}

/* ---- multicast groups --------------------------------------------------------------------------
 */

static const struct gid group = {{[10] = 0xff, 0xff, 239, 3, 2, 1}};

static int group_of(struct broker_client *c, uint8_t slot, const struct gid *g, bool join)
{
	const struct broker_group req = {.msg.type = BROKER_GROUP,
					 .slot = slot,
					 .ifindex = if_nametoindex("lo"),
					 .group = *g,
					 .join = join};
	struct broker_msg resp;

	return broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), NULL);
}

static void send_to_group(const char *text)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCEV2_UDP_PORT)};
	const struct ip_mreqn lo = {.imr_ifindex = (int)if_nametoindex("lo")};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char b[32] = {0};

	memcpy(&to.sin_addr, group.raw + 12, 4);
	memset(b + 5, 0xff, 3);
	strcpy(b + 12, text);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)), 0);
	assert_int_equal(sendto(fd, b, sizeof(b), 0, (void *)&to, sizeof(to)), sizeof(b));
	close(fd);
}

static void each_slot_in_a_group_gets_a_copy_and_no_other(void **state)
{
	struct broker_client *a = bed_client(), *b = bed_client();
	const struct gid no_group = {{[10] = 0xff, 0xff, 10, 3, 2, 1}};
	uint8_t slot[3];
	int fd[3] = {bed_lease(a, &slot[0]), bed_lease(b, &slot[1]), bed_lease(b, &slot[2])};

	(void)state;
	assert_int_equal(group_of(a, slot[0], &no_group, true), -EINVAL);
	assert_int_equal(group_of(a, slot[1], &group, true), -EPERM); /* another's */
	assert_int_equal(group_of(a, 0, &group, true), -EPERM);
	assert_int_equal(group_of(a, slot[0], &group, false), -EINVAL);
	assert_int_equal(group_of(a, slot[0], &group, true), 0);
	assert_int_equal(group_of(a, slot[0], &group, true), -EADDRINUSE);
	send_to_group("one");
	assert_string_equal(bed_text(fd[0]), "one");
	assert_int_equal(group_of(b, slot[1], &group, true), 0);
	send_to_group("two");
	for (int i = 0; i < 2; i++) {
		assert_string_equal(bed_text(fd[i]), "two");
		assert_string_equal(bed_text(fd[i]), "");
	}
	assert_int_equal(group_of(a, slot[0], &group, false), 0);
	send_to_group("three");
	assert_string_equal(bed_text(fd[0]), "");
	assert_string_equal(bed_text(fd[1]), "three");
	assert_string_equal(bed_text(fd[2]), "");
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	broker_client_close(a);
	broker_client_close(b);
}

static void who_gets_a_slot_is_in_none_of_its_last_holders_groups(void **state)
{
	struct broker_client *keep = bed_client(), *c = bed_client();
	uint8_t slot, again;
	int fd = bed_lease(c, &slot);

	(void)state;
	assert_int_equal(group_of(c, slot, &group, true), 0);
	close(fd);
	broker_client_close(c);
	/* The slot rests a second: leases begin with those that were never out. */
	nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
	do
		fd = bed_lease(keep, &again);
	while (again != slot && !close(fd));
	send_to_group("stale");
	assert_string_equal(bed_text(fd), "");
	assert_int_equal(group_of(keep, slot, &group, true), 0);
	close(fd);
	broker_client_close(keep);
}

static void slots_run_out_cleanly(void **state)
{
	struct broker_client *c[LEASE_SLOTS];
	size_t clients = 0;
	uint8_t slot;
	int fd, rc = 0, n = 0;

	(void)state;
	while (rc != -EUSERS && clients < ARRAY_SIZE(c)) {
		c[clients] = bed_client();
		while ((rc = broker_client_lease_slot(c[clients], &slot, &fd)) == 0) {
			close(fd);
			n++;
		}
		clients++;
	}
	assert_int_equal(rc, -EUSERS);
	assert_int_equal(n, LEASE_SLOTS - 1);
	assert_int_equal(fd, -1);
	while (clients)
		broker_client_close(c[--clients]);
}

static void a_forked_child_has_no_part_in_its_parents_connection(void **state)
{
	struct broker_client *c = bed_client(), *own;
	struct broker_devices *d = calloc(1, sizeof(*d));
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		if (broker_client_devices(c, d) != -ENOTCONN)
			_exit(1);
		if (broker_client_open(&own, bed_err, sizeof(bed_err)) ||
		    broker_client_devices(own, d))
			_exit(2);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(broker_client_devices(c, d), 0);
	broker_client_close(c);
	free(d);
}

static void nonsense_ends_the_connection_of_who_sends_it(void **state)
{
	struct broker_client *keep = bed_client();
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(BROKER_SOCKET_NAME));
	struct broker_msg unknown = {.type = 999};
	static char big[BROKER_MSG_MAX];
	uint8_t slot;

	(void)state;
	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	for (size_t n = 1; n < 20000; n = n * 3 + 1) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&a, len), 0);
		memset(big, (int)n, n);
		assert_int_equal(send(fd, big, n, 0), n);
		assert_true(recv(fd, big, sizeof(big), 0) <= 0);
		close(fd);
	}
	assert_int_equal(broker_client_call(keep, &unknown, sizeof(unknown), &unknown,
					    sizeof(unknown), NULL),
			 -EOPNOTSUPP);
	close(bed_lease(keep, &slot));
	broker_client_close(keep);
}

static void a_descriptor_that_comes_with_no_bytes_is_closed(void **state)
{
	struct broker_client *keep = bed_client();
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(BROKER_SOCKET_NAME));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), end[2];
	struct pollfd p;

	(void)state;
	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(pipe(end), 0);
	assert_int_equal(fd_msg_send(fd, "", 0, 0, end[1]), 0);
	close(end[1]);
	p = (struct pollfd){.fd = end[0]};
	assert_int_equal(poll(&p, 1, 2000), 1); /* hung up */
	close(end[0]);
	close(fd);
	broker_client_close(keep);
}

static const struct broker_device *device(const struct broker_devices *d, const char *name)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (strcmp(d->dev[i].name, name) == 0)
			return &d->dev[i];
	return NULL;
}

static int gid_index(const struct broker_device *d, const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	for (int i = 0; i < BROKER_MAX_GIDS; i++)
		if (d->gids[i].type == BROKER_GID_ROCE_V2 && gid_equal(&d->gids[i].gid, &g))
			return i;
	return -1;
}

static void devices_follow_the_interfaces(void **state)
{
	struct broker_client *c = bed_client();
	struct broker_devices *d = calloc(1, sizeof(*d));
	const struct broker_device *v = NULL, *lo;

	(void)state;
	assert_int_equal(broker_client_devices(c, d), 0);
	assert_int_equal(d->count, 1);
	lo = device(d, "weft_lo");
	assert_non_null(lo);
	assert_true(lo->loopback && lo->up);
	assert_int_equal(lo->mtu, 65536);
	assert_int_equal(gid_index(lo, "::ffff:127.0.0.1"), 0);
	assert_int_equal(gid_index(lo, "::1"), 1);
	if (system("ip link add v0 address 02:00:00:00:00:01 mtu 4200 type veth peer name v1 &&"
		   "ip addr add fd09::1/64 dev v0 nodad && ip addr add 10.9.0.1/24 dev v0 &&"
		   "ip link set v1 up && ip link set v0 up")) {
		broker_client_close(c);
		free(d);
		SKIP_CASE("no veth pair can be set up here");
	}
	assert_true(eventually(2000, broker_client_devices(c, d) == 0 &&
					     (v = device(d, "weft_v0")) && v->up &&
					     gid_index(v, "fe80::ff:fe00:1") >= 0));
	assert_int_equal(d->count, 3);
	assert_string_equal(d->dev[2].name, "weft_lo"); /* last */
	assert_int_equal(v->mtu, 4200);
	assert_int_equal(v->speed_mbps, 10000);
	assert_int_not_equal(v->guid_be, lo->guid_be);
	/* An address keeps its index whatever comes and goes beside it. */
	int at = gid_index(v, "::ffff:10.9.0.1"), at6 = gid_index(v, "fd09::1");
	assert_true(at >= 0 && at6 >= 0);
	assert_int_equal(system("ip addr del fd09::1/64 dev v0; ip addr add 10.9.0.3/24 dev v0"),
			 0);
	assert_true(eventually(2000, broker_client_devices(c, d) == 0 &&
					     (v = device(d, "weft_v0")) &&
					     gid_index(v, "::ffff:10.9.0.3") >= 0));
	assert_int_equal(gid_index(v, "fd09::1"), -1);
	assert_int_equal(gid_index(v, "::ffff:10.9.0.1"), at);
	assert_int_equal(gid_index(v, "::ffff:10.9.0.3"), at6); /* the first free place */
	assert_int_equal(system("ip link set v0 down"), 0);
	assert_true(eventually(2000, broker_client_devices(c, d) == 0 &&
					     (v = device(d, "weft_v0")) && !v->up));
	assert_int_equal(system("ip link del v0"), 0);
	assert_true(eventually(2000, broker_client_devices(c, d) == 0 && d->count == 1));
	broker_client_close(c);
	free(d);
}

static void a_port_that_is_taken_is_named(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(ROCEV2_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct broker_client *c = NULL;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(broker_client_open(&c, bed_err, sizeof(bed_err)), -EADDRINUSE);
	assert_non_null(strstr(bed_err, "4791"));
	assert_non_null(strstr(bed_err, "in use"));
	close(fd);
}

static void a_broker_that_cannot_be_started_is_named(void **state)
{
	const char *was = getenv("WEFT_BROKER");
	char *keep = was ? strdup(was) : NULL;
	struct broker_client *c = NULL;

	(void)state;
	setenv("WEFT_BROKER", "/nonexistent/weft", 1);
	assert_int_equal(broker_client_open(&c, bed_err, sizeof(bed_err)), -ENOENT);
	assert_non_null(strstr(bed_err, "/nonexistent/weft"));
	setenv("WEFT_BROKER", "/bin/false", 1);
	assert_int_not_equal(broker_client_open(&c, bed_err, sizeof(bed_err)), 0);
	assert_non_null(strstr(bed_err, "/bin/false"));
	if (keep)
		setenv("WEFT_BROKER", keep, 1);
	else
		unsetenv("WEFT_BROKER");
	free(keep);
}

/* As a program that is set-user-ID, if this file system has that: this one, run once more. Its PATH
 * is the user's. */
static void a_privileged_program_starts_no_broker_of_the_users(void **state)
{
	char dir[] = "/tmp/weft-broker-XXXXXX", copy[64], evil[64], cmd[256];
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		SKIP_CASE("only root can be other users");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	snprintf(copy, sizeof(copy), "%s/spawner", dir);
	snprintf(evil, sizeof(evil), "%s/weft", dir);
	snprintf(cmd, sizeof(cmd), "cp /proc/%d/exe %s && chmod 4755 %s", getpid(), copy, copy);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(symlink("/bin/false", evil), 0);
	pid = fork();
	if (pid == 0) {
		unsetenv("WEFT_BROKER");
		setenv("PATH", dir, 1);
		if (setgid(65534) == 0 && setuid(65534) == 0)
			execl(copy, copy, "--spawn", NULL);
		_exit(255);
	}
	waitpid(pid, &status, 0);
	unlink(copy);
	unlink(evil);
	rmdir(dir);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP_CASE("what is set-user-ID has no effect here");
	assert_int_equal(WEXITSTATUS(status), EPERM);
}

/* The copy's part. */
static int spawn_and_tell(void)
{
	return geteuid() == 0 && getuid() != 0
		       ? -broker_spawn(NULL, NULL, NULL, bed_err, sizeof(bed_err))
		       : 77;
}

/* Clock ticks that the process has used. */
static unsigned long ticks_of(pid_t pid)
{
	unsigned long user = 0, kernel = 0;
	char path[64], line[1024] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	/* After the name in brackets: state, ten numbers, and these. */
	assert_int_equal(sscanf(strrchr(line, ')') + 1,
				" %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
				&kernel),
			 2);
	return user + kernel;
}

/* Starts a broker with so few descriptors, and is its client until it is killed. */
static pid_t broker_with_descriptors(rlim_t n)
{
	const struct rlimit few = {n, n};
	int ready[2];
	pid_t pid;
	char b;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		alarm(60); /* at the latest */
		if (setrlimit(RLIMIT_NOFILE, &few) < 0)
			_exit(1);
		bed_client();
		if (write(ready[1], "", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &b, 1), 1);
	close(ready[0]);
	return pid;
}

static void who_finds_no_room_waits_at_the_door_in_silence(void **state)
{
	enum { KNOCKERS = 100 };
	const struct timespec second = {.tv_sec = 1};
	pid_t first = broker_with_descriptors(64), broker = bed_broker_pid();
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(BROKER_SOCKET_NAME));
	unsigned long before;
	int fd[KNOCKERS];

	(void)state;
	assert_true(broker > 0);
	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	for (int i = 0; i < KNOCKERS; i++) {
		fd[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(fd[i] >= 0);
		assert_int_equal(connect(fd[i], (struct sockaddr *)&a, len), 0);
	}
	nanosleep(&second, NULL);
	before = ticks_of(broker);
	nanosleep(&second, NULL);
	assert_true(ticks_of(broker) - before < (unsigned long)sysconf(_SC_CLK_TCK) / 4);
	for (int i = 0; i < KNOCKERS; i++)
		close(fd[i]);
	broker_client_close(bed_client());
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
}

/* The broker says it of itself, whatever it was asked for, and at the door, too. Nobody loses what
 * he has already. */
static void a_broker_without_descriptors_says_so_with_its_limit(void **state)
{
	enum { LIMIT = 40 };
	pid_t first = broker_with_descriptors(LIMIT);
	struct broker_client *c = bed_client(), *late[LIMIT] = {0};
	int rc, fd, fds[2 * LIMIT], held = 0, clients = 0;
	struct pollfd events = {.events = POLLIN};
	uint8_t own, slot;
	uint32_t channel;

	(void)state;
	fds[held++] = bed_lease(c, &own);
	assert_int_equal(broker_client_cm_channel(c, &channel, &events.fd), 0);
	while (!(rc = broker_client_lease_slot(c, &slot, &fd)))
		fds[held++] = fd;
	assert_true(rc == -EDQUOT || rc == -ENFILE); /* 16 for one process */
	while (!(rc = broker_client_cm_channel(c, &channel, &fd)))
		fds[held++] = fd;
	assert_int_equal(rc, -ENFILE);
	while (!(rc = broker_client_open(&late[clients], bed_err, sizeof(bed_err))))
		assert_true(++clients < LIMIT);
	assert_int_equal(rc, -ENFILE);
	assert_non_null(strstr(bed_err, "has no descriptors left (limit 40)"));
	assert_non_null(strstr(bed_err, "start `weft broker` with a higher one"));
	assert_int_equal(broker_client_offer_inbox(c, own, fds[0]),
			 -ENFILE); /* which it cannot take */
	assert_int_equal(poll(&events, 1, 0), 0);
	close(events.fd);
	while (held)
		close(fds[--held]);
	while (clients)
		broker_client_close(late[--clients]);
	broker_client_close(c);
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
}

static void users_do_not_share_a_broker_but_roots(void **state)
{
	enum { NOBODY = 65534, SOMEBODY = 12345 };
	struct broker_client *c = NULL;
	char text[512];
	pid_t pid;
	int ready[2];
	char b;

	(void)state;
	if (geteuid() != 0)
		SKIP_CASE("only root can be other users");
	c = bed_client();
	assert_int_equal(bed_open_as(NOBODY, text, sizeof(text)), 0);
	broker_client_close(c);
	assert_int_equal(bed_fresh(NULL), 0);

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (setuid(NOBODY) < 0 || broker_client_open(&c, bed_err, sizeof(bed_err)))
			_exit(1);
		if (write(ready[1], "", 1) < 0)
			_exit(1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &b, 1), 1);
	close(ready[0]);
	assert_int_equal(broker_client_open(&c, bed_err, sizeof(bed_err)), -EPERM);
	assert_non_null(strstr(bed_err, "belongs to nobody (uid 65534)"));
	assert_int_equal(bed_open_as(SOMEBODY, text, sizeof(text)), -EPERM);
	assert_non_null(strstr(text, "belongs to nobody (uid 65534)"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
#define FRESH(f) cmocka_unit_test_setup(f, bed_fresh)
	const struct CMUnitTest tests[] = {
		FRESH(it_starts_on_demand_and_ends_after_its_last_client),
		cmocka_unit_test(many_starters_at_once_find_one_broker),
		cmocka_unit_test(packets_reach_the_slot_they_name),
		cmocka_unit_test(who_asks_for_a_path_mtu_gets_an_answer_as_long),
		cmocka_unit_test(who_asks_for_more_is_told_it_and_answered_in_his_class),
		cmocka_unit_test(who_asks_by_the_thousand_is_not_always_answered),
		FRESH(a_killed_clients_slot_is_freed_rested_and_drained),
		cmocka_unit_test(a_forked_child_has_no_part_in_its_parents_connection),
		cmocka_unit_test(nonsense_ends_the_connection_of_who_sends_it),
		cmocka_unit_test(a_descriptor_that_comes_with_no_bytes_is_closed),
		cmocka_unit_test(devices_follow_the_interfaces),
		cmocka_unit_test(each_slot_in_a_group_gets_a_copy_and_no_other),
		cmocka_unit_test(who_gets_a_slot_is_in_none_of_its_last_holders_groups),
		cmocka_unit_test(slots_run_out_cleanly),
		FRESH(a_port_that_is_taken_is_named),
		FRESH(a_broker_that_cannot_be_started_is_named),
		FRESH(a_privileged_program_starts_no_broker_of_the_users),
		FRESH(who_finds_no_room_waits_at_the_door_in_silence),
		FRESH(a_broker_without_descriptors_says_so_with_its_limit),
		FRESH(users_do_not_share_a_broker_but_roots),
	};

	if (argc > 1 && !strcmp(argv[1], "--spawn"))
		return spawn_and_tell();
	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
