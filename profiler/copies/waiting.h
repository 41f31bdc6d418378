/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which copy is measured next?  Arms take seconds, and more instants come in that time.  Their
 * copies are made then, and wait, parked, until the program has ended, a worker is free, or there
 * is no time left.
 */
#ifndef TLBCOST_COPIES_WAITING_H
#define TLBCOST_COPIES_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "sampling_state.h"

/* Real time that a copy may take, so that enough are measured in time. */
uint64_t waiting_share(const struct sampling *sampling);

/*
 * Do copies wait until the program has ended?  Then it takes no caches and no memory from the arms,
 * and they can use its frames.  Not if it may run for longer than copies can be parked.
 */
bool waiting_is_for_the_end(const struct sampling *sampling);

/* With as many bytes in memory as this, may one more copy wait?  Of a program that we launched. */
bool waiting_may(const struct sampling *sampling, uint64_t resident_bytes);

/*
 * Have it wait.  `recording`: a descriptor, which is duplicated, or -1.  Returns 0; or -1: its
 * caller has to kill it.
 */
int waiting_add(struct sampling *sampling, const struct sampled_copy *sampled,
		const struct worker_job *job, int recording);

/*
 * The worker is free: give it the one that is farthest, in the program's CPU time, from all that
 * workers have got; if there is no time left for it, none, and all that wait are given up.
 */
void waiting_give(struct sampling *sampling, struct worker *worker);

/* Kill those of a process, which were not measured; NULL: all. */
void waiting_kill(struct sampling *sampling, const struct process *process);

#endif
