/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that do the same work on parts of memory, for workloads about NUMA.
 * The thread that starts them is the first of them, so that this many threads
 * are there, and no more.
 */
#ifndef TLBCOST_TEAM_H
#define TLBCOST_TEAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>

#include "workload.h"

#define TEAM_MOST 64u

struct team;

struct team_member {
	struct team *team;
	uint64_t number;	/* from 0 */
	uint64_t sum;		/* of its work */
};

struct team {
	uint64_t threads;
	void (*work)(struct team_member *member);
	void *shared;		/* what the work needs */
	pthread_barrier_t barrier;
	struct team_member members[TEAM_MOST];
};

/* Continue when all have arrived. */
static inline void team_wait(struct team_member *member)
{
	pthread_barrier_wait(&member->team->barrier);
}

static inline void team_check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "cannot %s: %s\n", what, strerror(error));
		exit(1);
	}
}

static inline void *team_start(void *argument)
{
	struct team_member *member = argument;
	cpu_set_t own;

	/* So that a test knows on which node it is. */
	if (getenv("WORKLOAD_PIN")) {
		CPU_ZERO(&own);
		CPU_SET(member->number, &own);
		team_check(sched_setaffinity(0, sizeof(own), &own) < 0 ? errno : 0,
			   "stay on a CPU");
	}
	member->team->work(member);
	return NULL;
}

/* Do the work in this many threads; returns the sum of their sums. */
static inline uint64_t team_run(uint64_t threads,
				void (*work)(struct team_member *member),
				void *shared)
{
	struct team team = { .threads = threads, .work = work, .shared = shared };
	pthread_t others[TEAM_MOST];
	uint64_t sum = 0;

	if (threads > TEAM_MOST) {
		fprintf(stderr, "--threads is more than %u\n", TEAM_MOST);
		exit(2);
	}
	team_check(pthread_barrier_init(&team.barrier, NULL, (unsigned)threads),
		   "make a barrier");
	for (uint64_t i = 0; i < threads; i++)
		team.members[i] = (struct team_member){ .team = &team, .number = i };
	for (uint64_t i = 1; i < threads; i++)
		team_check(pthread_create(&others[i], NULL, team_start,
					  &team.members[i]),
			   "start a thread");
	team_start(&team.members[0]);
	for (uint64_t i = 1; i < threads; i++)
		pthread_join(others[i], NULL);
	for (uint64_t i = 0; i < threads; i++)
		sum += team.members[i].sum;
	pthread_barrier_destroy(&team.barrier);
	return sum;
}

/*
 * A kilobyte is read at once, so that few accesses need a page walk: what a
 * program of few TLB misses does.
 */
#define TEAM_RUN_BYTES 1024u

static inline uint64_t team_read_run(const char *start)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < TEAM_RUN_BYTES; i += WORKLOAD_LINE_BYTES)
		sum += (unsigned char)start[i];
	return sum;
}

/* Up to a multiple of a huge page. */
static inline uint64_t team_whole_pages(uint64_t bytes)
{
	return (bytes + WORKLOAD_HUGE_BYTES - 1) /
	       WORKLOAD_HUGE_BYTES * WORKLOAD_HUGE_BYTES;
}

/* Touch every base page of a range first. */
static inline void team_touch(char *start, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += WORKLOAD_PAGE_BYTES)
		start[i] = (char)(i >> 12);
}

#endif
