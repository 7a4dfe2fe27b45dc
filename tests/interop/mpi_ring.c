/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An MPI program as there are many, compiled by mpi.py with each MPI's own mpicc: messages of every
 * size round a ring, a reduction, one-sided operations; every byte is checked. Rank 0 says what
 * was wrong, and how long a message of 8 bytes and of 1 MiB takes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_BYTES (4 << 20)
#define NUMBERS	       1000

static unsigned char pattern(int rank, int size, int at)
{
	return (unsigned char)(rank * 31 + at * 7 + size);
}

static int ring(int rank, int ranks, unsigned char *out, unsigned char *in)
{
	int before = (rank + ranks - 1) % ranks, wrong = 0;

	for (int size = 1; size <= SIZE_MAX_BYTES; size *= 4) {
		for (int i = 0; i < size; i++)
			out[i] = pattern(rank, size, i);
		memset(in, 0, (size_t)size);
		MPI_Sendrecv(out, size, MPI_BYTE, (rank + 1) % ranks, 1, in, size, MPI_BYTE, before,
			     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < size; i++)
			wrong += in[i] != pattern(before, size, i);
	}
	return wrong;
}

static int reduction(int rank, int ranks)
{
	static double mine[NUMBERS], sum[NUMBERS];
	int wrong = 0;

	for (int i = 0; i < NUMBERS; i++)
		mine[i] = rank + i;
	MPI_Allreduce(mine, sum, NUMBERS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < NUMBERS; i++)
		wrong += sum[i] != ranks * (ranks - 1) / 2.0 + (double)ranks * i;
	return wrong;
}

/* Everybody puts into everybody, adds to everybody's last number, and reads what rank 0 has. */
static int one_sided(int rank, int ranks)
{
	size_t bytes = sizeof(int) * ((size_t)ranks + 1);
	int *window = calloc(1, bytes), *got = calloc(1, bytes), wrong = 0, mine = rank + 100,
	    one = 1;
	MPI_Win win;

	MPI_Win_create(window, (MPI_Aint)bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	for (int to = 0; to < ranks; to++) {
		MPI_Put(&mine, 1, MPI_INT, to, rank, 1, MPI_INT, win);
		MPI_Accumulate(&one, 1, MPI_INT, to, ranks, 1, MPI_INT, MPI_SUM, win);
	}
	MPI_Win_fence(0, win);
	MPI_Get(got, ranks + 1, MPI_INT, 0, 0, ranks + 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < ranks; i++)
		wrong += (window[i] != i + 100) + (got[i] != i + 100);
	wrong += (window[ranks] != ranks) + (got[ranks] != ranks);
	MPI_Win_free(&win);
	free(window);
	free(got);
	return wrong;
}

/* Microseconds from rank 0 to the last and back, halved. */
static double latency(int rank, int ranks, unsigned char *data, int size, int rounds)
{
	double begun;

	MPI_Barrier(MPI_COMM_WORLD);
	begun = MPI_Wtime();
	for (int i = 0; i < rounds; i++) {
		if (rank == 0) {
			MPI_Send(data, size, MPI_BYTE, ranks - 1, 2, MPI_COMM_WORLD);
			MPI_Recv(data, size, MPI_BYTE, ranks - 1, 2, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		} else if (rank == ranks - 1) {
			MPI_Recv(data, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(data, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
		}
	}
	return (MPI_Wtime() - begun) / rounds / 2 * 1e6;
}

int main(int argc, char **argv)
{
	unsigned char *out = malloc(SIZE_MAX_BYTES), *in = malloc(SIZE_MAX_BYTES);
	int rank, ranks, wrong, all = -1;
	double small, large;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	wrong = ring(rank, ranks, out, in) + reduction(rank, ranks) + one_sided(rank, ranks);
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	small = latency(rank, ranks, out, 8, 500);
	large = latency(rank, ranks, out, 1 << 20, 20);
	if (rank == 0)
		printf("ranks %d wrong %d 8B %.1f us 1MiB %.1f us\n", ranks, all, small, large);
	MPI_Finalize();
	free(out);
	free(in);
	return wrong != 0;
}
