/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two threads at once, each updating random words of its own half of --size bytes. */
#include <pthread.h>

#include "workload.h"

struct half {
	uint64_t *table;
	uint64_t n;
	uint64_t count;
	uint64_t state;
	uint64_t sum;
};

static void *update(void *argument)
{
	struct half *half = argument;
	uint64_t state = half->state;

	for (uint64_t i = 0; i < half->n; i++)
		half->table[i] = i;
	for (uint64_t i = 0; i < half->count; i++) {
		uint64_t random = workload_random(&state);

		half->table[workload_below(random, half->n)] ^= random;
	}
	for (uint64_t i = 0; i < half->n; i++)
		half->sum += half->table[i];
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t size = 512u << 20, count = 30000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "updates by each thread" },
		{ "seed", &seed, 0, "of the random places" },
		{ "size", &size, 16, "bytes of both halves together" },
	};
	struct half halves[2] = { { 0 }, { 0 } };
	pthread_t second;
	uint64_t *table;
	int error;

	(void)argc;
	WORKLOAD_PARSE(argv, "Update random words in two threads.", options);
	table = workload_memory(size);
	for (unsigned i = 0; i < 2; i++) {
		halves[i].n = size / 2 / sizeof(*table);
		workload_at_most_32_bits(halves[i].n);
		halves[i].table = table + i * halves[i].n;
		halves[i].count = count;
		halves[i].state = workload_seed(seed + i);
	}
	error = pthread_create(&second, NULL, update, &halves[1]);
	if (error) {
		fprintf(stderr, "cannot start a thread: %s\n", strerror(error));
		return 1;
	}
	update(&halves[0]);
	pthread_join(second, NULL);
	free(table);
	return workload_finish(halves[0].sum + halves[1].sum);
}
