/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Multiply two square matrices block by block: three blocks at a time are in
 * use, each row of them on a page of its own, many times over.
 */
#include "workload.h"

#define BLOCK 64u

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Add the product of two blocks to a third; -O2 alone leaves it scalar. */
__attribute__((optimize("O3")))
static void multiply_block(const double *restrict a, const double *restrict b,
			   double *restrict c, uint64_t order, uint64_t rows,
			   uint64_t inner, uint64_t columns)
{
	for (uint64_t i = 0; i < rows; i++)
		for (uint64_t k = 0; k < inner; k++) {
			double factor = a[i * order + k];

			for (uint64_t j = 0; j < columns; j++)
				c[i * order + j] += factor * b[k * order + j];
		}
}

static void multiply(const double *a, const double *b, double *c, uint64_t order)
{
	for (uint64_t i = 0; i < order; i += BLOCK)
		for (uint64_t k = 0; k < order; k += BLOCK)
			for (uint64_t j = 0; j < order; j += BLOCK)
				multiply_block(a + i * order + k, b + k * order + j,
					       c + i * order + j, order,
					       least(BLOCK, order - i), least(BLOCK, order - k),
					       least(BLOCK, order - j));
}

int main(int argc, char **argv)
{
	uint64_t order = 1500, seed = 1, state, bits, sum = 0;
	const struct workload_option options[] = {
		{ "order", &order, 1, "rows and columns" },
		{ "seed", &seed, 0, "of the elements" },
	};
	double *a, *b, *c;

	(void)argc;
	WORKLOAD_PARSE(argv, "Multiply two matrices.", options);
	if (order > 1u << 20) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	a = workload_memory(order * order * sizeof(*a));
	b = workload_memory(order * order * sizeof(*b));
	c = workload_memory(order * order * sizeof(*c));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < order * order; i++) {
		a[i] = (double)workload_below(workload_random(&state), 1000);
		b[i] = (double)workload_below(workload_random(&state), 1000);
		c[i] = 0;
	}
	multiply(a, b, c, order);
	for (uint64_t i = 0; i < order * order; i++) {
		memcpy(&bits, &c[i], sizeof(bits));
		sum = sum * 31 + bits;
	}
	free(a);
	free(b);
	free(c);
	return workload_finish(sum);
}
