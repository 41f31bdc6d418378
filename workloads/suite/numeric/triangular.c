/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Solve L L' x = b, where L is sparse and triangular, as one does with an
 * incomplete factorization: forwards, each unknown waits for earlier ones, of
 * which half are near and half anywhere; backwards, it is taken from the same
 * ones.  The matrix is read in order.
 */
#include "workload.h"

#define NEAR 64u

struct matrix {
	uint64_t rows, elements;	/* off the diagonal, in each row */
	double *diagonal;
	double *values;
	uint32_t *columns;
};

static void make(struct matrix *matrix, uint64_t seed)
{
	uint64_t state = workload_seed(seed), at = 0;

	for (uint64_t i = 0; i < matrix->rows; i++) {
		matrix->diagonal[i] = 1 + (double)(i % 5) / 4;
		for (uint64_t k = 0; k < matrix->elements; k++, at++) {
			uint64_t random = workload_random(&state);
			uint64_t far = k & 1 || i < NEAR ? i : NEAR;

			/* The first row has nothing before it: its elements are 0. */
			matrix->columns[at] = (uint32_t)(i - (i ? 1 : 0) -
							 workload_below(random, far ? far : 1));
			matrix->values[at] = i ? (double)(random & 0xff) /
					(double)(256 * matrix->elements) : 0;
		}
	}
}

static void solve(const struct matrix *matrix, double *x)
{
	const uint64_t elements = matrix->elements;

	for (uint64_t i = 0; i < matrix->rows; i++) {
		double rest = x[i];

		for (uint64_t at = i * elements; at < (i + 1) * elements; at++)
			rest -= matrix->values[at] * x[matrix->columns[at]];
		x[i] = rest / matrix->diagonal[i];
	}
	for (uint64_t i = matrix->rows; i-- > 0;) {
		x[i] /= matrix->diagonal[i];
		for (uint64_t at = i * elements; at < (i + 1) * elements; at++)
			x[matrix->columns[at]] -= matrix->values[at] * x[i];
	}
}

int main(int argc, char **argv)
{
	uint64_t rows = 4000000, elements = 6, rounds = 7, seed = 1, bits;
	const struct workload_option options[] = {
		{ "elements", &elements, 0, "off the diagonal, in each row" },
		{ "rounds", &rounds, 0, "solutions" },
		{ "rows", &rows, 1, "of the matrix" },
		{ "seed", &seed, 0, "of the matrix" },
	};
	struct matrix matrix = { 0 };
	double sum = 0, *x;

	(void)argc;
	WORKLOAD_PARSE(argv, "Solve sparse triangular systems.", options);
	if (rows > UINT32_MAX || elements > 1000) {
		fputs("--rows or --elements is too large\n", stderr);
		return 2;
	}
	matrix.rows = rows;
	matrix.elements = elements;
	matrix.diagonal = workload_memory(rows * sizeof(*matrix.diagonal));
	/* malloc(0) may be NULL. */
	matrix.values = workload_memory((rows * elements + 1) * sizeof(*matrix.values));
	matrix.columns = workload_memory((rows * elements + 1) * sizeof(*matrix.columns));
	x = workload_memory(rows * sizeof(*x));
	make(&matrix, seed);
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t i = 0; i < rows; i++)
			x[i] = (double)(i % 7 + round);
		solve(&matrix, x);
		for (uint64_t i = 0; i < rows; i++)
			sum += (double)(i % 3 + 1) * x[i];
	}
	memcpy(&bits, &sum, sizeof(bits));
	free(x);
	free(matrix.columns);
	free(matrix.values);
	free(matrix.diagonal);
	return workload_finish(bits);
}
