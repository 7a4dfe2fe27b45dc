/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Receiving, by whom it may be, and what of it waits for the program's answer. */
#include "engine/shard_priv.h"

int shard_receive(struct shard *s, uint64_t now)
{
	const bool before = drive_send_pending(&s->drive);
	int got = drive_receive(&s->drive, now);

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
