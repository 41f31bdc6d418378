/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Solve as many linear equations as there are unknowns, by Gauss's elimination
 * with the rows exchanged: each step goes over the whole rest of the matrix in
 * order, row by row.
 */
#include <math.h>

#include "workload.h"

static void exchange(double *a, double *b, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double other = a[i];

		a[i] = b[i];
		b[i] = other;
	}
}

/* The row at or below the diagonal with the largest element of column k. */
static uint64_t pivot_row(const double *a, uint64_t n, uint64_t k)
{
	uint64_t best = k;

	for (uint64_t i = k + 1; i < n; i++)
		if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
			best = i;
	return best;
}

/* Make the matrix triangular, and do the same to the right side. 0, or -1 if it is singular. */
static int eliminate(double *restrict a, double *right, uint64_t n)
{
	for (uint64_t k = 0; k < n; k++) {
		uint64_t pivot = pivot_row(a, n, k);
		const double *row = a + k * n;

		if (a[pivot * n + k] == 0)
			return -1;
		if (pivot != k) {
			exchange(a + k * n, a + pivot * n, n);
			exchange(right + k, right + pivot, 1);
		}
		for (uint64_t i = k + 1; i < n; i++) {
			double *below = a + i * n;
			double factor = below[k] / row[k];

			for (uint64_t j = k; j < n; j++)
				below[j] -= factor * row[j];
			right[i] -= factor * right[k];
		}
	}
	return 0;
}

static void substitute(const double *a, double *right, uint64_t n)
{
	for (uint64_t i = n; i-- > 0;) {
		for (uint64_t j = i + 1; j < n; j++)
			right[i] -= a[i * n + j] * right[j];
		right[i] /= a[i * n + i];
	}
}

int main(int argc, char **argv)
{
	uint64_t n = 1600, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "order", &n, 1, "equations" },
		{ "seed", &seed, 0, "of the matrix" },
	};
	double *a, *right;

	(void)argc;
	WORKLOAD_PARSE(argv, "Solve linear equations.", options);
	if (n > 1u << 20) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	a = workload_memory(n * n * sizeof(*a));
	right = workload_memory(n * sizeof(*right));
	state = workload_seed(seed);
	/* The solution is 1, 2, 3 and so on. */
	for (uint64_t i = 0; i < n; i++) {
		right[i] = 0;
		for (uint64_t j = 0; j < n; j++) {
			a[i * n + j] = (double)workload_below(workload_random(&state), 1000) - 499.5;
			right[i] += a[i * n + j] * (double)(j + 1);
		}
	}
	if (eliminate(a, right, n) < 0) {
		fputs("the matrix is singular\n", stderr);
		return 1;
	}
	substitute(a, right, n);
	for (uint64_t i = 0; i < n; i++)
		sum = sum * 31 + (uint64_t)llround(right[i]);
	free(right);
	free(a);
	return workload_finish(sum);
}
