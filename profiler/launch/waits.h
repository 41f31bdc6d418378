/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long were the program's threads ready to run, but waited for a CPU? */
#ifndef TLBCOST_LAUNCH_WAITS_H
#define TLBCOST_LAUNCH_WAITS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct wait_task;

/*
 * The program's threads and those of its children, as /proc/PID/schedstat shows
 * them while they live.  Zeroed knows nothing.  Fields are private.
 */
struct waits {
	pid_t pid;
	uint64_t start_ns, next_ns;
	struct wait_task *tasks;
	size_t n, capacity;
	int lost;	/* too many threads, or no memory: nothing is known */
};

/* Begin with the process that becomes the program. */
void waits_start(struct waits *waits, pid_t pid);

/*
 * The CLOCK_MONOTONIC time of the next sample.  They get rarer as the program
 * runs on, and take less than a hundredth of the time.
 */
uint64_t waits_due(const struct waits *waits);

/* Read what all threads that live now have waited so far. */
void waits_sample(struct waits *waits);

/* Read the program's first thread once more: it has ended, but was not reaped. */
void waits_last(struct waits *waits);

/*
 * Set *waited_ns to the sum over all threads that were seen.  cpu_ns is the CPU
 * time of the program and the children it waited for.  Returns 0; -1 if the
 * threads that were seen used less than nine tenths of it (they came and went
 * between two samples), or more (processes that were left behind are among
 * them), or the kernel has no such times.
 */
int waits_total(const struct waits *waits, uint64_t cpu_ns, uint64_t *waited_ns);

/* Free what the samples took. */
void waits_free(struct waits *waits);

#endif
