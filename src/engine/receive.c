/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Receiving, by whom it may be, and what of it waits for the program's answer. */
#include "engine/shard_priv.h"

bool shard_is_slept_on(const struct shard *s)
{
	return (s->sleeps_until && s->listens) || s->lease.attended;
}

int shard_lulled(struct shard *s, uint64_t now)
{
	int got = 0;

	if (!drive_sleeps(&s->drive)) {
		got = drive_receive(&s->drive, now);
		if (!drive_sleeps(&s->drive))
			(void)drive_rouse(&s->drive);
	}
	return got;
}

int shard_receive(struct shard *s, uint64_t now)
{
	const bool before = drive_send_pending(&s->drive);
	int got = drive_receive(&s->drive, now);

	/* What would have woken others may be among it. */
	if (got >= 0 && shard_is_slept_on(s)) {
		int more = shard_lulled(s, now);

		got = more < 0 ? more : got + more;
	}
	if (drive_send_pending(&s->drive)) {
		if (!drive_send_only_acks(&s->drive))
			lease_other_came(&s->lease);
		else if (!before)
			lease_written(&s->lease, now);
	}
	return got;
}

bool shard_keeps(const struct shard *s, uint64_t now)
{
	return drive_send_only_acks(&s->drive) && lease_keeps(&s->lease, now);
}
