/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Each rank hands 1 MiB to the next; everybody looks at every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)

int main(int argc, char **argv)
{
	unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
	int rank, ranks, wrong = 0, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	memset(out, rank + 1, BYTES);
	MPI_Sendrecv(out, BYTES, MPI_BYTE, (rank + 1) % ranks, 0, in, BYTES, MPI_BYTE,
		     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < BYTES; i++)
		wrong += in[i] != (rank + ranks - 1) % ranks + 1;
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %d bytes wrong\n", ranks, all);
	MPI_Finalize();
	free(out);
	free(in);
	return all != 0;
}
