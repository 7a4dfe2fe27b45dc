/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An OpenSHMEM program, compiled by mpi.py with Open MPI's oshcc: each puts to the next and gets
 * from the one before, adds atomically to the first's counter, and all is checked. The first says
 * what was wrong, as mpi_ring.c does.
 */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

#define BYTES (1 << 20)

static long counter, sync_sum[SHMEM_REDUCE_SYNC_SIZE];
static int wrong, all_wrong, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static unsigned char pattern(int pe, int at)
{
	return (unsigned char)(pe * 31 + at * 7);
}

int main(void)
{
	int me, pes, before, next;
	unsigned char *mine, *given, got[4096];

	shmem_init();
	me = shmem_my_pe();
	pes = shmem_n_pes();
	before = (me + pes - 1) % pes;
	next = (me + 1) % pes;
	mine = shmem_malloc(BYTES);
	given = shmem_malloc(BYTES);
	for (int i = 0; i < BYTES; i++)
		mine[i] = pattern(me, i);
	memset(given, 0, BYTES);
	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		sync_sum[i] = SHMEM_SYNC_VALUE;
	shmem_barrier_all();

	shmem_putmem(given, mine, BYTES, next);
	shmem_barrier_all();
	for (int i = 0; i < BYTES; i++)
		wrong += given[i] != pattern(before, i);
	shmem_getmem(got, mine + 1000, sizeof(got), before);
	for (int i = 0; i < (int)sizeof(got); i++)
		wrong += got[i] != pattern(before, i + 1000);
	for (int i = 0; i < 100; i++)
		shmem_long_atomic_fetch_add(&counter, 1, 0);
	shmem_barrier_all();
	if (me == 0)
		wrong += counter != 100L * pes;
	shmem_int_sum_to_all(&all_wrong, &wrong, 1, 0, 0, pes, work, sync_sum);
	if (me == 0)
		printf("ranks %d wrong %d put, get and add\n", pes, all_wrong);
	shmem_free(given);
	shmem_free(mine);
	shmem_finalize();
	return wrong != 0;
}
