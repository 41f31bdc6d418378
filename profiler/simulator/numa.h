/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread accesses memory for which page?  Drives the model of
 * profiler/numa/ with the references of threads, all of them or a sample: of
 * each thread's own references `warm` fill its caches, then `measured` are
 * counted, and the rest of each `period` is skipped.
 */
#ifndef TLBSIM_NUMA_H
#define TLBSIM_NUMA_H

#include "run.h"

#include "numa/placement.h"

/* Does the model see the current thread?  Only its caches, or counted as well. */
enum numa_phase { NUMA_SKIP, NUMA_WARM, NUMA_COUNT };

/* A thread's state between its turns. */
struct numa_thread {
	struct placement_thread *caches;	/* NULL: no model */
	UInt phase;
	ULong left;				/* references of its phase */
};

struct numa_times {
	ULong origin;		/* time at which the process image began */
	ULong interval, ends;	/* length of the current phase, and its end */
};

extern struct placement numa_placement;
extern struct numa_times numa_times;

/* The phase that the current thread is in. */
extern ULong tlbsim_numa_phase;
/* Time at which that changes. */
extern ULong tlbsim_numa_next_turn;

/* A new process image: forget all counts. */
void numa_start(void);

/* Threads: the new one's state; the next one to run; one that is gone. */
void numa_thread_start(struct numa_thread *thread, UInt number);
void numa_switch(struct numa_thread *next);
void numa_drop(struct numa_thread *thread);

/* The current thread walked for this address; it may be its first touch. */
void numa_walked(ULong address);

/* Called from the program's code: a run of references, unless they are skipped. */
void tlbsim_numa_run(const struct run *run, const ULong *bases);
/* A block begins at tlbsim_numa_next_turn or later. */
void tlbsim_numa_turn(void);

#endif
