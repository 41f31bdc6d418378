/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Serve sessions in several threads: each thread ends one of its sessions and
 * begins another all the time.  A session is a list of items of all sizes, each
 * from malloc() and freed again, so that every thread's arena of the heap gets
 * a pattern of holes, and what belongs together lies apart.
 */
#include <pthread.h>

#include "workload.h"

#define MOST_THREADS 64u

struct item {
	struct item *next;
	uint64_t bytes;		/* of the text */
	unsigned char text[];
};

struct worker {
	struct item **sessions;
	uint64_t n;
	uint64_t count;
	uint64_t state;
	uint64_t sum;
	pthread_t thread;
};

/* Sizes between 16 and 1024 bytes, small ones more often; NULL if there is no memory. */
static struct item *new_item(uint64_t *state, struct item *next)
{
	uint64_t bytes = 16 + workload_below(workload_random(state), 1009);
	struct item *item;

	bytes = 16 + workload_below(workload_random(state), bytes - 15);
	item = malloc(sizeof(*item) + bytes);
	if (!item)
		return NULL;
	item->next = next;
	item->bytes = bytes;
	memset(item->text, (int)(bytes & 127), bytes);
	return item;
}

/* The sum over what is freed. */
static uint64_t end_session(struct item *item)
{
	uint64_t sum = 0;

	while (item) {
		struct item *next = item->next;

		sum = sum * 31 + item->text[0] + item->text[item->bytes - 1] + item->bytes;
		free(item);
		item = next;
	}
	return sum;
}

static struct item *begin_session(uint64_t *state)
{
	struct item *item = NULL;

	for (uint64_t items = 1 + (workload_random(state) >> 61); items > 0; items--) {
		struct item *more = new_item(state, item);

		if (!more) {
			fprintf(stderr, "cannot allocate an item: %s\n", strerror(ENOMEM));
			exit(1);
		}
		item = more;
	}
	return item;
}

static void *serve(void *argument)
{
	struct worker *worker = argument;
	/* Not in the workers' array, whose lines have the neighbours' numbers, too. */
	uint64_t state = worker->state, sum = 0;

	for (uint64_t i = 0; i < worker->n; i++)
		worker->sessions[i] = begin_session(&state);
	for (uint64_t i = 0; i < worker->count; i++) {
		uint64_t which = workload_below(workload_random(&state), worker->n);

		sum += end_session(worker->sessions[which]);
		worker->sessions[which] = begin_session(&state);
	}
	for (uint64_t i = 0; i < worker->n; i++)
		sum += end_session(worker->sessions[i]);
	worker->sum = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t sessions = 100000, count = 800000, threads = 2, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "sessions that each thread ends" },
		{ "seed", &seed, 0, "of the sizes" },
		{ "sessions", &sessions, 1, "sessions of each thread at a time" },
		{ "threads", &threads, 1, "threads" },
	};
	struct worker workers[MOST_THREADS];

	(void)argc;
	WORKLOAD_PARSE(argv, "Begin and end sessions in several threads.", options);
	if (threads > MOST_THREADS) {
		fprintf(stderr, "--threads must be at most %u\n", MOST_THREADS);
		return 2;
	}
	workload_at_most_32_bits(sessions);
	for (uint64_t i = 0; i < threads; i++) {
		int error;

		workers[i] = (struct worker){
			.sessions = workload_memory(sessions * sizeof(struct item *)),
			.n = sessions,
			.count = count,
			.state = workload_seed(seed + i),
		};
		error = pthread_create(&workers[i].thread, NULL, serve, &workers[i]);
		if (error) {
			fprintf(stderr, "cannot start a thread: %s\n", strerror(error));
			return 1;
		}
	}
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		free(workers[i].sessions);
		sum = sum * 31 + workers[i].sum;
	}
	return workload_finish(sum);
}
