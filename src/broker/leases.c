/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/leases.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/udp/udp_port.h"
#include "wire/path_probe.h"

#define PORT_TRIES     20 /* for what a broker or client that is just ending still holds */
#define PORT_TRY_EVERY (50 * NSEC_PER_MSEC)
#define DRAIN_MAX      65536

static int attach_steering(int fd)
{
	/* The program sees the UDP payload. What is too short for it goes to the first. */
	static struct sock_filter code[] = {
		{.code = BPF_LD | BPF_W | BPF_ABS, .k = 0},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 3, .k = PATH_PROBE_ASK},
		{.code = BPF_LD | BPF_B | BPF_ABS, .k = 5},
		{.code = BPF_ALU | BPF_ADD | BPF_K, .k = 1},
		{.code = BPF_RET | BPF_A},
		{.code = BPF_RET | BPF_K, .k = 0},
	};
	static const struct sock_fprog prog = {.len = ARRAY_SIZE(code), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)) < 0
		       ? -errno
		       : 0;
}

static void explain(char *err, size_t err_len, int rc)
{
	if (rc == -EADDRINUSE && access("/sys/module/rdma_rxe", F_OK) == 0)
		snprintf(err, err_len,
			 "UDP port %d is in use: a kernel rxe device holds it (`rdma link` lists "
			 "them, `rdma link delete NAME` frees the port), or another program (`ss "
			 "-ulpn sport = :%d` names it)",
			 ROCEV2_UDP_PORT, ROCEV2_UDP_PORT);
	else if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "UDP port %d is in use by another program (`ss -ulpn sport = :%d` names "
			 "it; one that outlived its broker may be among them): end it, or work in "
			 "a network namespace of your own",
			 ROCEV2_UDP_PORT, ROCEV2_UDP_PORT);
	else
		snprintf(err, err_len, "cannot open UDP port %d: %s", ROCEV2_UDP_PORT,
			 strerror(-rc));
}

static int open_first(struct leases *l)
{
	int rc;

	l->reflector = udp_socket_open();
	if (l->reflector < 0)
		return l->reflector;
	rc = attach_steering(l->reflector);
	if (rc)
		return rc;
	l->slot[0].fd = udp_socket_open();
	if (l->slot[0].fd < 0)
		return l->slot[0].fd;
	l->slot[0].taken = true;
	l->opened = 1;
	return 0;
}

int leases_init(struct leases *l, char *err, size_t err_len)
{
	struct timespec pause = {.tv_nsec = PORT_TRY_EVERY};
	int rc;

	*l = (struct leases){.reflector = -1, .slot[0].fd = -1};
	groups_init(&l->groups);
	/* Joining a group that others have left members in would spoil the indices: the port must
	 * be all ours. */
	rc = udp_port_is_free();
	for (int i = 0; i < PORT_TRIES && rc == -EADDRINUSE; i++) {
		nanosleep(&pause, NULL);
		rc = udp_port_is_free();
	}
	if (rc == 0)
		rc = open_first(l);
	if (rc) {
		explain(err, err_len, rc);
		leases_fini(l);
	}
	return rc;
}

void leases_fini(struct leases *l)
{
	if (l->reflector >= 0)
		close(l->reflector);
	l->reflector = -1;
	while (l->opened) {
		int fd = l->slot[--l->opened].fd;

		groups_leave_all(&l->groups, l->opened, fd);
		close(fd);
	}
}

/* What came for the slot's last owner must not reach the next one. */
static void drain(int fd)
{
	char byte;

	for (int i = 0; i < DRAIN_MAX; i++)
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0)
			return;
}

int leases_take(struct leases *l, uint64_t now)
{
	unsigned best = 0;

	for (unsigned i = 1; i < l->opened; i++)
		if (!l->slot[i].taken &&
		    (!best || l->slot[i].released_ns < l->slot[best].released_ns))
			best = i;
	if ((!best || now - l->slot[best].released_ns < LEASE_REST_NS) && l->opened < LEASE_SLOTS) {
		int fd = udp_socket_open();

		if (fd >= 0) {
			best = l->opened++;
			l->slot[best].fd = fd;
		} else if (!best) {
			return fd;
		}
	}
	if (!best)
		return -EUSERS;
	drain(l->slot[best].fd);
	l->slot[best].taken = true;
	return (int)best;
}

int leases_group(struct leases *l, unsigned slot, const struct gid *group, uint32_t ifindex,
		 bool join)
{
	int fd = l->slot[slot].fd;

	return join ? groups_join(&l->groups, slot, fd, group, ifindex)
		    : groups_leave(&l->groups, slot, fd, group, ifindex);
}

void leases_release(struct leases *l, unsigned slot, uint64_t now)
{
	assert(slot && slot < l->opened && l->slot[slot].taken);
	groups_leave_all(&l->groups, slot, l->slot[slot].fd);
	l->slot[slot].taken = false;
	l->slot[slot].released_ns = now;
}
