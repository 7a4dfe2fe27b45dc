// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Direct placement: riomap(3) gives the peer a buffer at an offset, by an entry in the peer's
 * iomap that goes before the next data; riowrite(3) puts data there.
 */
#include <byteswap.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/stream.h"

static struct stream *stream_of(int fd)
{
	struct sock *s = sock_lookup(fd);

	if (s && s->type != SOCK_STREAM) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return s ? container_of(s, struct stream, sock) : NULL;
}

static long answer(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* ---- our buffers, under map_lock ------------------------------------------------------------- */

static struct iomapping *new_mapping(struct stream *s, bool for_peer)
{
	struct iomapping *m;

	if (!for_peer) {
		m = calloc(1, sizeof(*m));
		if (m)
			m->index = -1;
		return m;
	}
	if (!s->iomap && s->remote_iomap.length)
		s->iomap = calloc(s->remote_iomap.length, sizeof(*s->iomap));
	for (uint32_t i = 0; s->iomap && i < s->remote_iomap.length; i++) {
		m = &s->iomap[i];
		if (!m->mr) {
			m->index = (int)i;
			return m;
		}
	}
	return NULL;
}

static void drop(struct iomapping *m)
{
	list_remove(&m->node);
	ibv_dereg_mr(m->mr);
	m->mr = NULL;
	if (m->index < 0)
		free(m);
}

void stream_drop_iomaps(struct stream *s)
{
	struct list *n;

	while ((n = list_pop_head(&s->iomap_new)) || (n = list_pop_head(&s->iomap_told)))
		drop(list_entry(n, struct iomapping, node));
}

off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct stream *s = stream_of(fd);
	int access = IBV_ACCESS_LOCAL_WRITE, rc = 0;
	struct iomapping *m;

	(void)flags;
	if (!s)
		return -1;
	if (!s->id->pd || (prot & ~(PROT_WRITE | PROT_NONE)))
		return answer(-EINVAL);
	if (prot & PROT_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	pthread_mutex_lock(&s->map_lock);
	m = new_mapping(s, prot & PROT_WRITE);
	if (!m) {
		rc = -ENOMEM;
		goto unlock;
	}
	m->mr = ibv_reg_mr(s->id->pd, buf, len, access);
	if (!m->mr) {
		rc = -errno;
		if (m->index < 0)
			free(m);
		goto unlock;
	}
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	m->offset = (uint64_t)offset;
	list_push_tail(m->index < 0 ? &s->iomap_told : &s->iomap_new, &m->node);
	if (m->index >= 0)
		atomic_store(&s->iomap_pending, true);
unlock:
	pthread_mutex_unlock(&s->map_lock);
	return rc ? answer(rc) : offset;
}

static bool drop_from(struct list *from, const void *buf, size_t len)
{
	list_for_each(m, from, struct iomapping, node) {
		if (m->mr->addr == buf && m->mr->length == len) {
			drop(m);
			return true;
		}
	}
	return false;
}

int riounmap(int fd, void *buf, size_t len)
{
	struct stream *s = stream_of(fd);
	bool found;

	if (!s)
		return -1;
	pthread_mutex_lock(&s->map_lock);
	found = drop_from(&s->iomap_told, buf, len) || drop_from(&s->iomap_new, buf, len);
	pthread_mutex_unlock(&s->map_lock);
	return (int)answer(found ? 0 : -EINVAL);
}

/* ---- on the wire, under slock ---------------------------------------------------------------- */

static int tell(struct stream *s, const struct iomapping *m)
{
	struct rs_iomap entry = {m->offset,
				 {(uintptr_t)m->mr->addr, m->mr->rkey, (uint32_t)m->mr->length}};
	struct iovec iov = {&entry, sizeof(entry)};
	struct iov_at from = {.iov = &iov};

	if (s->swap) {
		entry.offset = bswap_64(entry.offset);
		entry.sge.addr = bswap_64(entry.sge.addr);
		entry.sge.key = bswap_32(entry.sge.key);
		entry.sge.length = bswap_32(entry.sge.length);
	}
	s->sseq_no++;
	return stream_post_data(
		s, &from, sizeof(entry), rs_imm(RS_OP_IOMAP_SGL, (uint32_t)m->index), true,
		s->remote_iomap.addr + (uint64_t)m->index * sizeof(entry), s->remote_iomap.key);
}

int stream_tell_iomaps(struct stream *s, int flags)
{
	int rc = 0;

	pthread_mutex_lock(&s->map_lock);
	while (!rc && !list_empty(&s->iomap_new)) {
		struct iomapping *m = list_entry(s->iomap_new.next, struct iomapping, node);

		rc = stream_wait_for_room(s, flags, sock_until(s->sock.snd_timeout_ms));
		if (!rc)
			rc = tell(s, m);
		if (!rc) {
			list_remove(&m->node);
			list_push_tail(&s->iomap_told, &m->node);
		}
	}
	atomic_store(&s->iomap_pending, !list_empty(&s->iomap_new));
	pthread_mutex_unlock(&s->map_lock);
	return rc;
}

/* The peer's buffer at that offset, as our iomap has it now. */
static bool find(const struct stream *s, uint64_t offset, struct rs_iomap *ret)
{
	for (uint32_t i = 0; i < s->set.iomap_size; i++) {
		volatile const struct rs_iomap *e = &s->target_iomap[i];
		struct rs_iomap copy = {e->offset, {e->sge.addr, e->sge.key, e->sge.length}};

		if (offset >= copy.offset && offset - copy.offset < copy.sge.length) {
			*ret = copy;
			return true;
		}
	}
	return false;
}

static ssize_t write_direct(struct stream *s, const void *buf, size_t count, uint64_t offset,
			    int flags)
{
	enum { PIECE_MAX = 65536 };
	struct iovec iov = {(void *)(uintptr_t)buf, count};
	struct iov_at from = {.iov = &iov};
	size_t left = count;
	struct rs_iomap to;
	int rc = 0;

	if (atomic_load(&s->iomap_pending))
		rc = stream_tell_iomaps(s, flags);
	while (left && !rc && find(s, offset, &to)) {
		uint64_t within = offset - to.offset;
		uint32_t length;

		rc = stream_wait_for_room(s, flags, sock_until(s->sock.snd_timeout_ms));
		if (rc)
			break;
		length = (uint32_t)min_of(left, (size_t)PIECE_MAX);
		length = min_of(length, atomic_load(&s->sbuf_free));
		length = (uint32_t)min_of((uint64_t)length, to.sge.length - within);
		rc = stream_post_data(s, &from, length, 0, false, to.sge.addr + within, to.sge.key);
		if (rc)
			break;
		left -= length;
		offset += length;
	}
	return rc && left == count ? rc : (ssize_t)(count - left);
}

size_t riowrite(int fd, const void *buf, size_t count, off_t offset, int flags)
{
	struct stream *s = stream_of(fd);
	ssize_t n;

	if (!s)
		return (size_t)-1;
	n = stream_connected(s, flags);
	if (n)
		return (size_t)answer(n);
	pthread_mutex_lock(&s->slock);
	n = write_direct(s, buf, count, (uint64_t)offset, flags);
	pthread_mutex_unlock(&s->slock);
	return (size_t)answer(n);
}
