/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/leases.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "port/local/inbox.h"
#include "port/udp/udp_socket.h"

#define PORT_TRIES     20 /* for what a broker or client that is just ending still holds */
#define PORT_TRY_EVERY (50 * NSEC_PER_MSEC)
#define DRAIN_MAX      65536

static unsigned member_of(unsigned slot)
{
	return slot + 1;
}

int leases_fd(const struct leases *l, unsigned slot)
{
	return l->members.v[member_of(slot)].fd;
}

int leases_reflector(const struct leases *l)
{
	return l->members.v[0].fd;
}

static unsigned opened(const struct leases *l)
{
	return l->members.used ? l->members.used - 1 : 0;
}

static void explain(char *err, size_t err_len, int rc)
{
	if (rc == -EADDRINUSE && access("/sys/module/rdma_rxe", F_OK) == 0)
		snprintf(
			err, err_len,
			"UDP port %d is in use: the kernel's rxe holds it (`rdma link` lists its "
			"devices, `rdma link delete NAME` and then `modprobe -r rdma_rxe` free the "
			"port), or another program (`ss -ulpn sport = :%d` names it)",
			ROCEV2_UDP_PORT, ROCEV2_UDP_PORT);
	else if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "UDP port %d is in use by another program (`ss -ulpn sport = :%d` names "
			 "it; one that outlived its broker may be among them): end it, or work in "
			 "a network namespace of your own",
			 ROCEV2_UDP_PORT, ROCEV2_UDP_PORT);
	else
		snprintf(err, err_len, "cannot open UDP port %d: %s", ROCEV2_UDP_PORT,
			 errno_text(-rc));
}

/* The reflector and slot 0. */
static int open_own(struct leases *l)
{
	for (int i = 0; i < 2; i++) {
		int index = members_use(&l->members);

		if (index < 0)
			return index;
		udp_socket_deafen(l->members.v[index].fd, false);
	}
	l->slot[0].taken = true;
	return members_steer(&l->members);
}

/* Who has the slots will come and say so. */
static int take_over(struct leases *l, int bag_in, int bag_out)
{
	int rc = members_take_over(&l->members, bag_in, bag_out);

	if (rc)
		return rc;
	for (unsigned i = 0; i < opened(l); i++)
		l->slot[i] = (struct lease){
			.taken = i == 0,
			.had = i != 0,
			.uid = l->uid,
			.free_at = time_now_ns() + LEASE_HEIR_NS,
		};
	return opened(l) ? members_steer(&l->members) : -EPROTO;
}

static int take_port(struct leases *l)
{
	struct timespec pause = {.tv_nsec = PORT_TRY_EVERY};
	/* Joining a group that others have left members in would spoil the indices: the port must
	 * be all ours. */
	int rc = udp_port_is_free();

	for (int i = 0; i < PORT_TRIES && rc == -EADDRINUSE; i++) {
		nanosleep(&pause, NULL);
		rc = udp_port_is_free();
	}
	if (rc == 0 &&
	    getrandom(l->members.note, sizeof(l->members.note), 0) != sizeof(l->members.note))
		rc = -EIO;
	return rc ? rc : open_own(l);
}

int leases_init(struct leases *l, int bag_in, int bag_out, bool *ret_heir, char *err,
		size_t err_len)
{
	int rc;

	memset(l, 0, sizeof(*l));
	members_init(&l->members);
	groups_init(&l->groups);
	foreign_init(&l->foreign);
	l->uid = geteuid();
	if (l->uid == 0)
		foreign_look_around(&l->foreign);
	rc = bag_in < 0 ? -ENOENT : take_over(l, bag_in, bag_out);
	*ret_heir = rc == 0;
	if (rc == -ENOENT) {
		members_fini(&l->members);
		rc = take_port(l);
	}
	if (rc) {
		explain(err, err_len, rc);
		leases_fini(l);
	}
	return rc;
}

void leases_fini(struct leases *l)
{
	for (unsigned slot = opened(l); slot-- > 0;)
		groups_leave_all(&l->groups, slot, leases_fd(l, slot));
	foreign_fini(&l->foreign);
	members_fini(&l->members);
}

/* What came before must not reach who has the slot now. */
static void drain(int fd)
{
	char byte;

	for (int i = 0; i < DRAIN_MAX; i++)
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0)
			return;
}

/* Fresh, whoever has it next? */
static bool renew(struct leases *l, unsigned slot)
{
	if (foreign_lingers(&l->foreign, slot) ||
	    (l->slot[slot].had && members_renew(&l->members, member_of(slot))))
		return false;
	l->slot[slot].had = false;
	return true;
}

/* The slot that has rested longest, and (not hurried) long enough, and is fresh; 0: none. */
static unsigned rested(struct leases *l, bool hurried, uint64_t now)
{
	for (unsigned tries = opened(l); tries; tries--) {
		unsigned best = 0;

		for (unsigned i = 1; i < opened(l); i++)
			if (!l->slot[i].taken && (hurried || l->slot[i].free_at <= now) &&
			    (!best || l->slot[i].free_at < l->slot[best].free_at))
				best = i;
		if (!best || renew(l, best))
			return best;
		/* Somebody has kept a copy of its socket: it rests again. */
		l->slot[best].free_at = now + LEASE_REST_NS;
	}
	return 0;
}

/* What a user keeps a copy of counts as its own. */
static bool within_quota(const struct leases *l, uid_t uid)
{
	unsigned own = 0, all = 0;

	for (unsigned i = 1; i < opened(l); i++)
		if (l->slot[i].uid != l->uid && (l->slot[i].taken || l->foreign.slot[i].ino)) {
			all++;
			own += l->slot[i].uid == uid;
		}
	return own < LEASE_USER_MAX && all < LEASE_FOREIGN_MAX;
}

/* Its processes may want to know whose each slot is. */
static void tell_inboxes(struct leases *l, uid_t uid)
{
	for (unsigned i = 0; i < LEASE_SLOTS; i++)
		if (l->slot[i].inbox && l->slot[i].uid == uid)
			inbox_tell(l->slot[i].inbox);
}

int leases_take(struct leases *l, uid_t uid, uint64_t now, int *ret_fd)
{
	bool foreign = uid != l->uid;
	unsigned slot;
	int index = 0;

	foreign_settle(&l->foreign);
	if (foreign && !within_quota(l, uid))
		return -EDQUOT;
	slot = rested(l, false, now);
	/* What is opened for the first time may have a holder of a broker before this one. */
	while (!slot && (index = members_use(&l->members)) > 0)
		if (!foreign_lingers(&l->foreign, (unsigned)index - 1))
			slot = (unsigned)index - 1;
	if (slot)
		index = 0;
	else if (index == -EUSERS) /* rather a short rest than none for who asks */
		slot = rested(l, true, now);
	if (!slot)
		return index;
	if (foreign) {
		*ret_fd = foreign_open(&l->foreign, slot, uid);
		if (*ret_fd < 0) {
			l->slot[slot].free_at = now + LEASE_REST_NS; /* others first */
			return *ret_fd;
		}
	} else {
		*ret_fd = leases_fd(l, slot);
		drain(*ret_fd);
		udp_socket_deafen(*ret_fd, false);
	}
	l->slot[slot] = (struct lease){.taken = true, .had = !foreign, .uid = uid};
	tell_inboxes(l, uid); /* a broker before this one may not have closed the last holder's */
	leases_tick(l);
	return (int)slot;
}

int leases_keep(struct leases *l, unsigned slot, uid_t uid, int fd)
{
	bool foreign = uid != l->uid;
	int rc;

	if (!slot || slot >= LEASE_SLOTS)
		return -EINVAL;
	if (slot < opened(l) && l->slot[slot].taken)
		return -EBUSY;
	if (foreign && !within_quota(l, uid))
		return -EDQUOT;
	rc = foreign ? foreign_check(&l->foreign, slot, uid, fd) : 0;
	if (rc)
		return rc;
	while (foreign && slot >= opened(l)) {
		rc = members_use(&l->members);
		if (rc < 0)
			return rc;
	}
	rc = foreign ? foreign_resume(&l->foreign, slot, fd)
		     : members_restore(&l->members, member_of(slot), fd);
	if (rc)
		return rc == -ENOENT ? -EPERM : rc;
	/* One that has only lost its connection to us was taken for one that has ended. */
	if (!foreign)
		udp_socket_deafen(leases_fd(l, slot), false);
	l->slot[slot] = (struct lease){.taken = true, .had = !foreign, .uid = uid};
	return 0;
}

int leases_group(struct leases *l, unsigned slot, const struct gid *group, uint32_t ifindex,
		 bool join)
{
	int fd = leases_fd(l, slot);

	if (l->slot[slot].uid != l->uid)
		return -EOPNOTSUPP;
	return join ? groups_join(&l->groups, slot, fd, group, ifindex)
		    : groups_leave(&l->groups, slot, fd, group, ifindex);
}

int leases_offer(struct leases *l, unsigned slot, int fd)
{
	struct lease *s = &l->slot[slot];
	struct inbox *i;
	int rc = inbox_map(fd, &i);

	if (rc)
		return rc;
	inbox_unmap(i);
	if (s->inbox)
		close(s->inbox);
	s->inbox = fd;
	inbox_open(fd); /* a broker that was done with its owner has closed it */
	tell_inboxes(l, s->uid);
	return 0;
}

void leases_inboxes(const struct leases *l, uid_t uid, uint64_t ret[LEASE_SLOTS / 64])
{
	memset(ret, 0, LEASE_SLOTS / 8);
	for (unsigned i = 0; i < LEASE_SLOTS; i++)
		if (leases_inbox(l, i, uid) >= 0)
			ret[i / 64] |= UINT64_C(1) << i % 64;
}

int leases_inbox(const struct leases *l, unsigned slot, uid_t uid)
{
	const struct lease *s = slot < LEASE_SLOTS ? &l->slot[slot] : &l->slot[0];

	return s->taken && s->inbox && s->uid == uid ? s->inbox : -ENOENT;
}

void leases_leave_inboxes(struct leases *l)
{
	for (unsigned i = 0; i < LEASE_SLOTS; i++) {
		if (l->slot[i].inbox)
			close(l->slot[i].inbox);
		l->slot[i].inbox = 0;
	}
}

static void withdraw_inbox(struct lease *s)
{
	if (!s->inbox)
		return;
	inbox_close(s->inbox);
	close(s->inbox);
	s->inbox = 0;
}

void leases_release(struct leases *l, unsigned slot, uint64_t now)
{
	assert(slot && slot < opened(l) && l->slot[slot].taken);
	groups_leave_all(&l->groups, slot, leases_fd(l, slot));
	withdraw_inbox(&l->slot[slot]);
	foreign_close(&l->foreign, slot);
	udp_socket_deafen(leases_fd(l, slot), true);
	l->slot[slot].taken = false;
	l->slot[slot].free_at = now + LEASE_REST_NS;
}

void leases_tick(struct leases *l)
{
	int rc = members_steer(&l->members);

	if (rc)
		log_err("broker", "the steering of port %d cannot be put back: %s", ROCEV2_UDP_PORT,
			strerror(-rc));
	members_settle(&l->members);
}
