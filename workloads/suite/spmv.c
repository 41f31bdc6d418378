/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Multiply a sparse matrix of random places with a vector, again and again:
 * the matrix streams by, and each of its elements needs another page of the
 * vector.
 */
#include "workload.h"

static void multiply(const uint32_t *columns, const double *values, const double *in,
		     double *out, uint64_t rows, uint64_t per_row)
{
	for (uint64_t row = 0; row < rows; row++) {
		double sum = 0;

		for (uint64_t i = row * per_row; i < (row + 1) * per_row; i++)
			sum += values[i] * in[columns[i]];
		out[row] = sum;
	}
}

int main(int argc, char **argv)
{
	uint64_t rows = 6000000, per_row = 8, rounds = 4, seed = 1;
	const struct workload_option options[] = {
		{ "elements", &per_row, 1, "elements of each row" },
		{ "rounds", &rounds, 0, "times that the matrix is applied" },
		{ "rows", &rows, 1, "rows and columns" },
		{ "seed", &seed, 0, "of the places" },
	};
	double *values, *in, *out, *other;
	uint64_t state, bits;
	uint32_t *columns;

	(void)argc;
	WORKLOAD_PARSE(argv, "Multiply a sparse matrix with a vector.", options);
	if (rows > UINT32_MAX || per_row > 1024) {
		fputs("--rows or --elements is too large\n", stderr);
		return 2;
	}
	columns = workload_memory(rows * per_row * sizeof(*columns));
	values = workload_memory(rows * per_row * sizeof(*values));
	in = workload_memory(rows * sizeof(*in));
	out = workload_memory(rows * sizeof(*out));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < rows * per_row; i++) {
		columns[i] = (uint32_t)workload_below(workload_random(&state), rows);
		/* Rows sum up to 1, so that the vector keeps its size. */
		values[i] = 1.0 / (double)per_row;
	}
	for (uint64_t i = 0; i < rows; i++)
		in[i] = (double)(i % 1000);
	for (uint64_t round = 0; round < rounds; round++) {
		multiply(columns, values, in, out, rows, per_row);
		other = in;
		in = out;
		out = other;
	}
	memcpy(&bits, &in[rows / 2], sizeof(bits));
	free(columns);
	free(values);
	free(in);
	free(out);
	return workload_finish(bits);
}
