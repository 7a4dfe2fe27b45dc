/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who is going to attend looks for a moment before it sleeps: moment.h says when. */
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/time.h"
#include "engine/shard_priv.h"

/* As long as it takes the peer to be woken and to answer. */
#define LOOK_NS (50 * NSEC_PER_USEC)
/* Memory is looked at so often for each look at the descriptor, which is a system call. */
#define STIRS 32

/* No point of cancellation. */
static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return syscall(SYS_poll, &p, 1, 0) != 0;
}

static bool comes_until(const struct shard *s, int fd, uint64_t until)
{
	do {
		for (int i = 0; i < STIRS; i++)
			if (drive_stirs(&s->drive))
				return true;
		if (readable(fd))
			return true;
	} while (time_now_ns() < until);
	return false;
}

/* Nobody else receives meanwhile: the lease that it left last is live, and it is the only one. */
static bool looks(struct shard *s, uint64_t now)
{
	return !s->dead && s->drive.ports == 1 && s->drive.port[0]->fd >= 0 &&
	       lease_is_live(&s->lease, now) && !s->lease.attended && now >= s->looks_until &&
	       moment_pays(&s->moment);
}

void shard_look(struct shard *s)
{
	uint64_t now, until = 0;
	bool found;
	int fd = -1;

	shard_lock(s);
	now = time_now_ns();
	if (looks(s, now)) {
		if (drive_send_pending(&s->drive))
			shard_send(s, now);
		fd = s->drive.port[0]->fd;
		until = min_of(now + LOOK_NS, drive_next_deadline(&s->drive));
		s->looks_until = until;
	}
	shard_unlock(s);
	if (fd < 0)
		return;
	found = comes_until(s, fd, until);
	shard_lock(s);
	s->looks_until = 0;
	if (found)
		moment_finds(&s->moment);
	else
		moment_looked_in_vain(&s->moment);
	shard_unlock(s);
}
