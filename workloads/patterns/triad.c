/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * a[i] = b[i] + s * c[i] over three arrays in order: many references, few
 * pages, and the prefetcher hides most walks.
 */
#include "workload.h"

/* -O2 alone leaves it scalar; what people run is vectorised. */
__attribute__((optimize("O3")))
static void triad(double *restrict a, const double *restrict b,
		  const double *restrict c, uint64_t n, double s)
{
	for (uint64_t i = 0; i < n; i++)
		a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
	uint64_t size = 192u << 20, rounds = 40;
	const struct workload_option options[] = {
		{ "rounds", &rounds, 1, "times over the arrays" },
		{ "size", &size, 24, "bytes of the three arrays together" },
	};
	double *a, *b, *c;
	uint64_t n, bits;

	(void)argc;
	WORKLOAD_PARSE(argv, "a = b + s * c, in order.", options);
	n = size / (3 * sizeof(*a));
	a = workload_memory(n * sizeof(*a));
	b = workload_memory(n * sizeof(*b));
	c = workload_memory(n * sizeof(*c));
	for (uint64_t i = 0; i < n; i++) {
		a[i] = 0;
		b[i] = 1;
		c[i] = (double)(i % 1000);
	}
	/* The arrays change places, so that each round needs the last one's result. */
	for (uint64_t round = 0; round < rounds; round++) {
		double *last = c;

		triad(a, b, c, n, 0.5);
		c = a;
		a = last;
	}
	memcpy(&bits, &c[n / 2], sizeof(bits));
	free(a);
	free(b);
	free(c);
	return workload_finish(bits);
}
