/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How does a signal resemble itself some time later?  Its autocorrelation, by
 * a fast Fourier transform and back: first all elements change places, then
 * each pass combines elements twice as far apart as the one before.
 */
#include <math.h>

#include "workload.h"

#define PI 3.14159265358979323846
#define LEVELS 8u

struct complex {
	double re;
	double im;
};

static void reverse_bits(struct complex *x, uint64_t n)
{
	for (uint64_t i = 1, k = 0; i < n; i++) {
		uint64_t bit = n >> 1;

		for (; k & bit; bit >>= 1)
			k ^= bit;
		k |= bit;
		if (i < k) {
			struct complex other = x[i];

			x[i] = x[k];
			x[k] = other;
		}
	}
}

/* `root` has the first n / 2 powers of the n-th root of unity. */
static void transform(struct complex *x, const struct complex *root, uint64_t n)
{
	reverse_bits(x, n);
	for (uint64_t half = 1; half < n; half *= 2)
		for (uint64_t start = 0; start < n; start += 2 * half)
			for (uint64_t i = 0; i < half; i++) {
				struct complex *a = &x[start + i], *b = &x[start + i + half];
				struct complex w = root[i * (n / half / 2)];
				struct complex t = { b->re * w.re - b->im * w.im,
						     b->re * w.im + b->im * w.re };

				*b = (struct complex){ a->re - t.re, a->im - t.im };
				*a = (struct complex){ a->re + t.re, a->im + t.im };
			}
}

/* Of a real signal the spectrum's squares are even: the way back is the way there. */
static void correlate(struct complex *x, const struct complex *root, uint64_t n)
{
	transform(x, root, n);
	for (uint64_t i = 0; i < n; i++)
		x[i] = (struct complex){ (x[i].re * x[i].re + x[i].im * x[i].im) / (double)n, 0 };
	transform(x, root, n);
}

int main(int argc, char **argv)
{
	uint64_t bits = 23, seed = 1, state, n, sum = 0;
	const struct workload_option options[] = {
		{ "bits", &bits, 1, "of the number of samples" },
		{ "seed", &seed, 0, "of the signal" },
	};
	struct complex *x, *root;

	(void)argc;
	WORKLOAD_PARSE(argv, "Correlate a signal with itself.", options);
	if (bits > 30) {
		fputs("--bits must be at most 30\n", stderr);
		return 2;
	}
	n = UINT64_C(1) << bits;
	x = workload_memory(n * sizeof(*x));
	root = workload_memory(n / 2 * sizeof(*root));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < n; i++)
		x[i] = (struct complex){ (double)workload_below(workload_random(&state), LEVELS), 0 };
	for (uint64_t i = 0; i < n / 2; i++) {
		double angle = -2 * PI * (double)i / (double)n;

		root[i] = (struct complex){ cos(angle), sin(angle) };
	}
	correlate(x, root, n);
	/* Of whole numbers it is whole: what is rounded away is the same everywhere. */
	for (uint64_t i = 0; i < n; i++)
		sum = sum * 31 + (uint64_t)llround(x[i].re);
	free(root);
	free(x);
	return workload_finish(sum);
}
