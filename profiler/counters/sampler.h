/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is open on each CPU while overflows are sampled? */
#ifndef TLBCOST_COUNTERS_SAMPLER_H
#define TLBCOST_COUNTERS_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "overflow.h"
#include "ring.h"

/* The buffer of one CPU, that all events counted on it write to. */
struct sampler_cpu {
	int cpu;
	int fd;			/* of the event that reports mappings; -1: none yet */
	struct ring ring;
};

struct sampler_counter {
	int fd;
	uint64_t id;
	uint32_t event;
	int times;		/* its times are those of the thread */
};

/* All that is open.  Zeroed is closed.  Only the CPUs are public. */
struct sampler {
	struct sampler_options options;
	struct sampled_event *events;
	size_t event_count;
	struct sampler_cpu *cpus;
	size_t cpu_count;
	struct sampler_counter *counters;	/* by id */
	size_t count, room;
	int *watchers;		/* events that report mappings but own no buffer */
	size_t watcher_count, watcher_room;
	uint64_t lost;
};

/*
 * Prepare to sample these events, which the caller keeps.
 * Returns 0, or -1 with errno (ENOMEM, or that of the list of CPUs).
 */
int sampler_init(struct sampler *sampler, const struct sampler_options *options,
		 struct sampled_event *events, size_t event_count);

/*
 * Open the events for a thread (pid > 0) and the children that it will have,
 * or for all processes (-1), on each CPU.  May be called for more threads.
 * An event that cannot be opened has its `error` set, and is left out.
 * Returns 0; or -1 with errno if none is open, ESRCH if there is no such
 * thread, EMFILE if there are too few descriptors; then call sampler_close().
 */
int sampler_open(struct sampler *sampler, pid_t pid);

/* The same for every thread of a running process. */
int sampler_open_process(struct sampler *sampler, pid_t pid);

/* Sampling begins now, unless it waits for execve().  Returns 0, or -1 with errno. */
int sampler_start(struct sampler *sampler);

/* Stop writing to the buffers, and read the events' counts. */
void sampler_stop(struct sampler *sampler);

/* The event of the counter with this id, or NULL. */
const struct sampled_event *sampler_event(const struct sampler *sampler, uint64_t id);

/* Close all counters and unmap all buffers.  Safe on one that is zeroed or closed. */
void sampler_close(struct sampler *sampler);

#endif
