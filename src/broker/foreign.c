/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/foreign.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "broker/mark_table.h"
#include "broker/nft.h"
#include "broker/udp_table.h"
#include "port/udp/udp_socket.h"

#define MARK	 0x77656600u /* and the slot */
#define AGAIN_NS NSEC_PER_SEC

void foreign_init(struct foreign *f)
{
	memset(f, 0, sizeof(*f));
}

void foreign_fini(struct foreign *f)
{
	for (unsigned i = 0; i < FOREIGN_SLOTS; i++)
		if (f->slot[i].fd)
			close(f->slot[i].fd);
	nft_close(f->nft);
	foreign_init(f);
}

static void see_mark(void *ctx, uint32_t mark, ino_t ino)
{
	struct foreign *f = ctx;

	if ((mark & ~0xffu) == MARK)
		f->slot[mark & 0xff].ino = ino;
}

void foreign_look_around(struct foreign *f)
{
	int rc = mark_table_walk(see_mark, f);

	if (rc == 0)
		return;
	f->error = rc;
	f->again_at = UINT64_MAX;
	snprintf(f->why, sizeof(f->why),
		 "whose sockets are left here cannot be told (sock_diag): %s", strerror(-rc));
}

int foreign_ready(struct foreign *f)
{
	uint64_t now = time_now_ns();

	if (!f->nft && now >= f->again_at) {
		f->error = nft_open(&f->nft, ROCEV2_UDP_PORT, f->why, sizeof(f->why));
		f->again_at = now + AGAIN_NS;
		if (f->error)
			log_info("broker", "other users cannot be served: %s", f->why);
	}
	return f->error;
}

int foreign_resume(struct foreign *f, unsigned slot, int fd)
{
	uint16_t port = udp_socket_port(fd);
	struct stat st;
	int rc;

	if (!port || fstat(fd, &st) < 0)
		return -EINVAL;
	rc = nft_turn(f->nft, (uint8_t)slot, port);
	if (rc)
		return rc;
	f->slot[slot].fd = fd;
	f->slot[slot].ino = st.st_ino;
	return 0;
}

int foreign_open(struct foreign *f, unsigned slot, uid_t uid)
{
	int fd, rc = foreign_ready(f);

	if (rc)
		return rc;
	fd = udp_socket_open_private(MARK | slot, uid);
	if (fd < 0)
		return fd;
	rc = foreign_resume(f, slot, fd);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int foreign_check(struct foreign *f, unsigned slot, uid_t uid, int fd)
{
	int type = 0, rc = foreign_ready(f);
	socklen_t len = sizeof(type);
	struct stat st;

	if (rc)
		return rc;
	/* Of what is no socket nothing more is asked: a file system might not answer. */
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || fstat(fd, &st) < 0)
		return -EPERM;
	return f->slot[slot].ino && f->slot[slot].ino == st.st_ino && st.st_uid == uid ? 0 : -EPERM;
}

void foreign_close(struct foreign *f, unsigned slot)
{
	if (!f->slot[slot].fd)
		return;
	nft_turn_back(f->nft, (uint8_t)slot);
	close(f->slot[slot].fd);
	f->slot[slot].fd = 0;
}

struct look {
	const struct foreign *foreign;
	bool seen[FOREIGN_SLOTS];
};

static void see(void *ctx, ino_t ino)
{
	struct look *l = ctx;

	for (unsigned i = 0; i < FOREIGN_SLOTS; i++)
		l->seen[i] |= l->foreign->slot[i].ino == ino;
}

void foreign_settle(struct foreign *f)
{
	struct look l = {.foreign = f};
	bool any = false;

	for (unsigned i = 0; i < FOREIGN_SLOTS; i++)
		any |= foreign_lingers(f, i);
	/* Where nobody can say, none has ended. */
	if (!any || udp_table_walk(see, &l))
		return;
	for (unsigned i = 0; i < FOREIGN_SLOTS; i++)
		if (!f->slot[i].fd && !l.seen[i])
			f->slot[i].ino = 0;
}

bool foreign_lingers(const struct foreign *f, unsigned slot)
{
	return !f->slot[slot].fd && f->slot[slot].ino;
}
