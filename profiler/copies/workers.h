/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that follow copies, one at a time each.  They run only when no other process wants a
 * CPU; on a machine so busy that they never do, they are replaced by workers with normal priority.
 * Copies that they trace die with them.
 */
#ifndef TLBCOST_COPIES_WORKERS_H
#define TLBCOST_COPIES_WORKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "copy.h"
#include "follow.h"
#include "window.h"
#include "worker.h"

#define WORKERS_MOST 8u
/* Including those that replaced starved ones. */
#define WORKERS_SLOTS (2 * WORKERS_MOST)

struct worker {
	pid_t pid;
	int socket;		/* -1: it is gone */
	bool busy;
	bool urgent;		/* it has normal priority */
	bool retired;		/* it gets no more jobs */
	uint64_t cpu_ns;	/* its CPU time before its job */
};

struct workers {
	struct worker all[WORKERS_SLOTS];
	uint32_t count;
	struct worker_options options;
	const char *folder;
	uint32_t first;
};

/* CPUs that this process may use. */
uint32_t workers_cpus(void);

/* Whether CPUs have less idle time than half of one.  Takes 0.3 s. */
bool workers_lack_cpus(void);

/* As many as there are CPUs to spare for this process: from 1 to WORKERS_MOST. */
uint32_t workers_spare(void);

/*
 * Start them.  Their tables in the folder are numbered from `first`.  Returns 0;
 * or -1 with errno, and there are none.
 */
int workers_start(struct workers *workers, uint32_t count, const struct worker_options *options,
		  const char *folder, uint32_t first);

/* Avoid the CPUs that a process may use, if there are others. */
void workers_avoid(const struct workers *workers, pid_t pid);

/*
 * It gets no CPU time: retire it, and start one with normal priority in its place.  Returns the new
 * one; or NULL, and nothing has changed.
 */
struct worker *workers_replace(struct workers *workers, struct worker *starved);

/* How many can get a job sooner or later. */
uint32_t workers_serving(const struct workers *workers);

/* One without a job, or NULL. */
struct worker *workers_idle(struct workers *workers);

/* `recording`: a descriptor to give it, or -1.  Returns 0, or -1 with errno: the worker is gone. */
int workers_give(struct worker *worker, const struct worker_job *job, int recording);

/* Its next report; false: there is none. */
bool workers_hear(struct worker *worker, struct worker_news *news);

/*
 * Have all write their tables, wait for that, and let them end.  Returns how many are without
 * tables, because they were gone or could not write them (errno).
 */
uint32_t workers_finish(struct workers *workers);

/* Kill all. */
void workers_kill(struct workers *workers);

#endif
