/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast does memory stream?  Copy, Scale, Add and Triad by the rules of
 * McCalpin's STREAM: three arrays larger than the caches, the best of several
 * repetitions without the first, results checked.  Built twice: with arrays
 * from malloc(), and (STREAM_STATIC_BYTES) with static ones, which hugectl can
 * put on huge pages when the program is linked for it.
 */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define FACTOR 3.0
#define KERNELS 4u

#ifdef STREAM_STATIC_BYTES
#define MOST_ELEMENTS (STREAM_STATIC_BYTES / 3u / sizeof(double))
static double arrays[3][MOST_ELEMENTS];
#endif

/* -O2 alone leaves loops scalar; a memcpy() would bypass the cache in Copy alone. */
#define KERNEL __attribute__((noinline, optimize("O3", "no-tree-loop-distribute-patterns")))

KERNEL static void copy(double *restrict c, const double *restrict a, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		c[i] = a[i];
}

KERNEL static void scale(double *restrict b, const double *restrict c, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		b[i] = FACTOR * c[i];
}

KERNEL static void add(double *restrict c, const double *restrict a,
		       const double *restrict b, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		c[i] = a[i] + b[i];
}

KERNEL static void triad(double *restrict a, const double *restrict b,
			 const double *restrict c, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		a[i] = b[i] + FACTOR * c[i];
}

struct kernel {
	const char *name;
	double arrays;		/* read or written */
	double total_s, least_s, most_s;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One repetition of all four; `times` holds the moments before and after each. */
static void repeat(double *a, double *b, double *c, uint64_t n, double *times)
{
	times[0] = now_s();
	copy(c, a, n);
	times[1] = now_s();
	scale(b, c, n);
	times[2] = now_s();
	add(c, a, b, n);
	times[3] = now_s();
	triad(a, b, c, n);
	times[4] = now_s();
}

static void note(struct kernel *kernels, const double *times)
{
	for (unsigned k = 0; k < KERNELS; k++) {
		double s = times[k + 1] - times[k];

		kernels[k].total_s += s;
		kernels[k].least_s = fmin(kernels[k].least_s, s);
		kernels[k].most_s = fmax(kernels[k].most_s, s);
	}
}

static void print_rates(const struct kernel *kernels, uint64_t n, uint64_t timed)
{
	printf("%-10s %12s %11s %11s %11s\n", "Function", "Rate (MB/s)",
	       "Avg time", "Min time", "Max time");
	for (unsigned k = 0; k < KERNELS; k++)
		printf("%-10s %12.1f %11.6f %11.6f %11.6f\n", kernels[k].name,
		       1e-6 * kernels[k].arrays * sizeof(double) * (double)n /
			       kernels[k].least_s,
		       kernels[k].total_s / (double)timed, kernels[k].least_s,
		       kernels[k].most_s);
}

/* The value that each element must have after `rounds`; 0 if all do, -1 if one does not. */
static int check(const double *a, const double *b, const double *c, uint64_t n,
		 uint64_t rounds)
{
	double one_a = 1, one_b = 2, one_c = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		one_c = one_a;
		one_b = FACTOR * one_c;
		one_c = one_a + one_b;
		one_a = one_b + FACTOR * one_c;
	}
	for (uint64_t i = 0; i < n; i++)
		/* Relative, as fused multiply-add rounds otherwise. */
		if (!(fabs(a[i] - one_a) <= 1e-12 * one_a &&
		      fabs(b[i] - one_b) <= 1e-12 * one_b &&
		      fabs(c[i] - one_c) <= 1e-12 * one_c))
			return -1;
	return 0;
}

/* STREAM wants each array to be at least four times the last-level cache. */
static void warn_of_cache(uint64_t n)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (cache > 0 && n * sizeof(double) < 4 * (uint64_t)cache)
		fprintf(stderr, "note: an array of %llu bytes is less than four times "
			"the last-level cache (%ld bytes)\n",
			(unsigned long long)(n * sizeof(double)), cache);
#else
	(void)n;
#endif
}

/* The three arrays of n elements; exits if there is no room for them. */
static void take_arrays(double **a, double **b, double **c, uint64_t n)
{
#ifdef STREAM_STATIC_BYTES
	if (n > MOST_ELEMENTS) {
		fprintf(stderr, "--size must be at most %llu here: the arrays are static\n",
			(unsigned long long)sizeof(arrays));
		exit(2);
	}
	*a = arrays[0];
	*b = arrays[1];
	*c = arrays[2];
#else
	*a = workload_memory(n * sizeof(**a));
	*b = workload_memory(n * sizeof(**b));
	*c = workload_memory(n * sizeof(**c));
#endif
	for (uint64_t i = 0; i < n; i++) {
		(*a)[i] = 1;
		(*b)[i] = 2;
		(*c)[i] = 0;
	}
}

int main(int argc, char **argv)
{
	uint64_t size = 1u << 30, rounds = 10, fail = 0;
	const struct workload_option options[] = {
		{ "fail", &fail, 0, "exit code to leave with after the first repetition; 0: none" },
		{ "rounds", &rounds, 2, "repetitions; the first is not counted" },
		{ "size", &size, 24, "bytes of the three arrays together" },
	};
	struct kernel kernels[KERNELS] = {
		{ "Copy:", 2, 0, INFINITY, 0 }, { "Scale:", 2, 0, INFINITY, 0 },
		{ "Add:", 3, 0, INFINITY, 0 }, { "Triad:", 3, 0, INFINITY, 0 },
	};
	double *a, *b, *c, times[KERNELS + 1];
	uint64_t n, bits;

	(void)argc;
	WORKLOAD_PARSE(argv, "Copy, Scale, Add, Triad: memory's rates.", options);
	/* 16^rounds more or less: beyond, the values would overflow. */
	if (rounds > 200) {
		fputs("--rounds must be at most 200\n", stderr);
		return 2;
	}
	n = size / (3 * sizeof(*a));
	warn_of_cache(n);
	take_arrays(&a, &b, &c, n);
	for (uint64_t round = 0; round < rounds; round++) {
		repeat(a, b, c, n, times);
		if (fail)
			return (int)(fail & 0xff);
		if (round > 0)
			note(kernels, times);
	}
	if (check(a, b, c, n, rounds) < 0) {
		fputs("the arrays have wrong values\n", stderr);
		return 1;
	}
	print_rates(kernels, n, rounds - 1);
	memcpy(&bits, &a[n / 2], sizeof(bits));
	return workload_finish(bits);
}
