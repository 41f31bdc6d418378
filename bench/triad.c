/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * a = b + s * c in threads, with the vector instructions that it is compiled for.
 *
 *   triad THREADS BYTES ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
	double *a, *b, *c;
	size_t count;
	unsigned rounds;
	pthread_t thread;
};

static void *run(void *context)
{
	const struct part *part = context;

	for (unsigned round = 0; round < part->rounds; round++)
		for (size_t i = 0; i < part->count; i++)
			part->a[i] = part->b[i] + 3.0 * part->c[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const unsigned threads = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	const size_t count = threads ? strtoul(argv[2], NULL, 10) / sizeof(double) / 3 : 0;
	double *a, *b, *c;
	struct part *parts;

	if (!count)
		return 2;
	a = malloc(count * sizeof(*a));
	b = malloc(count * sizeof(*b));
	c = malloc(count * sizeof(*c));
	parts = calloc(threads, sizeof(*parts));
	if (!a || !b || !c || !parts)
		return 1;
	for (size_t i = 0; i < count; i++) {
		a[i] = 0;
		b[i] = (double)i;
		c[i] = 1;
	}
	for (unsigned i = 0; i < threads; i++) {
		const size_t from = count / threads * i;

		parts[i] = (struct part){ a + from, b + from, c + from, count / threads,
					  (unsigned)atoi(argv[3]), 0 };
		if (threads == 1)
			run(&parts[0]);
		else if (pthread_create(&parts[i].thread, NULL, run, &parts[i]))
			return 1;
	}
	for (unsigned i = 0; threads > 1 && i < threads; i++)
		pthread_join(parts[i].thread, NULL);
	printf("%g\n", a[count / threads - 1]);
	return 0;
}
