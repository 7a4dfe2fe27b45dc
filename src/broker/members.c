/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/members.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/udp_table.h"
#include "port/udp/udp_socket.h"
#include "wire/path_probe.h"

void members_init(struct members *m)
{
	m->count = m->used = m->lost = 0;
	m->bag = (struct bag){-1, -1};
}

void members_fini(struct members *m)
{
	/* From the end, so that none changes its place. */
	while (m->count)
		if (m->v[--m->count].fd >= 0)
			close(m->v[m->count].fd);
	m->used = m->lost = 0;
	bag_close(&m->bag);
}

int members_steer(struct members *m)
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

	return setsockopt(m->v[0].fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)) < 0
		       ? -errno
		       : 0;
}

/* ---- who takes whose place ------------------------------------------------------------------- */

static void into_bag(struct members *m, unsigned index, bool anew)
{
	const struct member_socket *s = &m->v[index];
	int rc = anew ? bag_put(&m->bag, index, s->ino, s->fd)
		      : bag_replace(&m->bag, index, s->ino, s->fd);

	if (rc)
		log_warn("broker", "socket %u would not outlive this broker: %s", index,
			 strerror(-rc));
}

static int join(struct members *m)
{
	struct stat st;
	int fd, rc;

	if (m->count == MEMBERS_MAX)
		return -EUSERS;
	fd = udp_socket_open();
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	/* Nobody reads it yet. */
	udp_socket_deafen(fd, true);
	m->v[m->count] = (struct member_socket){.fd = fd, .ino = st.st_ino};
	into_bag(m, m->count++, true);
	return 0;
}

static int need_spares(struct members *m, unsigned more)
{
	int rc = 0;

	while (!rc && m->count - m->used < m->lost + more)
		rc = join(m);
	return rc;
}

/* The kernel has given a lost one's place to the last, a spare one. */
static void spare_moves(struct members *m, unsigned to)
{
	assert(m->count > m->used && m->v[to].state == MEMBER_LOST);
	m->v[to] = m->v[--m->count];
	m->lost--;
	into_bag(m, to, false);
	bag_drop(&m->bag, m->count);
}

static int open_bag(struct members *m)
{
	int rc = bag_open(&m->bag);

	for (uint32_t i = 0; !rc && i < MEMBERS_NOTES; i++)
		rc = bag_put(&m->bag, MEMBERS_MAX + i, m->note[i], -1);
	return rc;
}

/* How many have roles. */
static void note_used(struct members *m)
{
	if (bag_replace(&m->bag, MEMBERS_USED_KEY, m->used, -1))
		log_warn("broker", "the sockets would not outlive this broker");
}

int members_use(struct members *m)
{
	int rc;

	if (m->used == MEMBERS_WITH_ROLE)
		return -EUSERS;
	if (m->bag.in < 0 && (rc = open_bag(m)) != 0)
		return rc;
	rc = need_spares(m, 2);
	if (rc)
		return rc;
	m->used++;
	note_used(m);
	return (int)m->used - 1;
}

struct look {
	const struct members *members;
	bool seen[MEMBERS_WITH_ROLE];
};

static void see(void *ctx, ino_t ino)
{
	struct look *l = ctx;

	for (unsigned i = 0; i < l->members->used; i++)
		if (l->members->v[i].state == MEMBER_LOST && l->members->v[i].ino == ino)
			l->seen[i] = true;
}

void members_settle(struct members *m)
{
	unsigned ended[MEMBERS_WITH_ROLE], n = 0;
	struct look l = {.members = m};

	/* Where nobody can say, none has ended. */
	if (!m->lost || udp_table_walk(see, &l))
		return;
	for (unsigned i = 0; i < m->used; i++)
		if (m->v[i].state == MEMBER_LOST && !l.seen[i])
			ended[n++] = i;
	for (unsigned i = 0; i < n; i++) {
		spare_moves(m, ended[i]);
		if (n > 1)
			m->v[ended[i]].state = MEMBER_RETIRED;
	}
}

int members_renew(struct members *m, unsigned index)
{
	struct member_socket *s = &m->v[index];
	int rc;

	assert(index && index < m->used);
	members_settle(m);
	if (s->state != MEMBER_OURS)
		return -EBUSY;
	rc = need_spares(m, 2);
	if (rc)
		return rc;
	s->state = MEMBER_LOST;
	m->lost++;
	close(s->fd);
	s->fd = -1;
	into_bag(m, index, false);
	members_settle(m);
	return s->state == MEMBER_OURS ? 0 : -EBUSY;
}

static bool is_socket(int fd, ino_t ino)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == ino;
}

int members_restore(struct members *m, unsigned index, int fd)
{
	struct member_socket *s = &m->v[index];

	if (index >= m->used || s->state == MEMBER_RETIRED || !is_socket(fd, s->ino))
		return -ENOENT;
	if (s->state == MEMBER_OURS) {
		close(fd); /* we have it ourselves */
		return 0;
	}
	s->fd = fd;
	s->state = MEMBER_OURS;
	m->lost--;
	into_bag(m, index, false);
	return 0;
}

/* ---- after another broker -------------------------------------------------------------------- */

static void take(void *ctx, uint32_t key, uint64_t note, int fd)
{
	struct members *m = ctx;

	if (key == MEMBERS_USED_KEY)
		m->used = (unsigned)min_of(note, (uint64_t)MEMBERS_WITH_ROLE);
	else if (key >= MEMBERS_MAX && key - MEMBERS_MAX < MEMBERS_NOTES)
		m->note[key - MEMBERS_MAX] = note;
	if (key >= MEMBERS_MAX) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (; m->count <= key; m->count++)
		m->v[m->count] = (struct member_socket){.fd = -1};
	if (m->v[key].fd >= 0)
		close(m->v[key].fd);
	m->v[key] = (struct member_socket){
		.fd = fd, .ino = note, .state = fd < 0 ? MEMBER_LOST : MEMBER_OURS};
}

/* The last one of them: a spare one that had moved, when its new place was noted already and its
 * old one was not yet forgotten. */
static void forget_moved(struct members *m)
{
	for (unsigned i = 0; m->count && i < m->count - 1; i++)
		if (m->v[i].ino == m->v[m->count - 1].ino) {
			close(m->v[--m->count].fd);
			bag_drop(&m->bag, m->count);
		}
}

/* Is what came out of the bag the group? Every index has a socket, or had one and is lost. */
static bool is_whole(struct members *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		if (!m->v[i].ino || (m->v[i].state == MEMBER_LOST && i >= m->used))
			return false;
		m->lost += m->v[i].state == MEMBER_LOST;
	}
	return m->used && m->used <= m->count && m->v[0].fd >= 0;
}

int members_take_over(struct members *m, int in, int out)
{
	int rc = bag_adopt(&m->bag, in, out, take, m);

	if (rc)
		return rc;
	if (!m->count)
		return -ENOENT;
	forget_moved(m);
	if (!is_whole(m))
		return -EPROTO;
	/* Before there are new spare ones: those that are lost may have ended, and the last of the
	 * old ones have moved. */
	members_settle(m);
	return need_spares(m, 1);
}
