/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sum a square matrix of doubles column by column though it is stored row by
 * row: each step goes to another page, by a constant stride.
 */
#include "workload.h"

int main(int argc, char **argv)
{
	/* Not a power of two: then whole columns would share one cache set. */
	uint64_t order = 5000, rounds = 3;
	const struct workload_option options[] = {
		{ "order", &order, 1, "rows and columns" },
		{ "rounds", &rounds, 0, "times over the matrix" },
	};
	double *matrix, sum = 0;
	uint64_t bits;

	(void)argc;
	WORKLOAD_PARSE(argv, "Walk a matrix against its storage order.", options);
	if (order > 1u << 20) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	matrix = workload_memory(order * order * sizeof(*matrix));
	for (uint64_t i = 0; i < order * order; i++)
		matrix[i] = (double)(i % 1000);
	for (uint64_t round = 0; round < rounds; round++)
		for (uint64_t column = 0; column < order; column++)
			for (uint64_t row = 0; row < order; row++)
				sum += matrix[row * order + column];
	memcpy(&bits, &sum, sizeof(bits));
	free(matrix);
	return workload_finish(bits);
}
