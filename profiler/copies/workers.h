/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that follow copies, one each at a time.  They run only when nobody else wants a CPU; if
 * that is never, as the machine is busy, others are started that take their share.  Copies that
 * they trace die with them.
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
/* With those that took the place of starved ones. */
#define WORKERS_SLOTS (2 * WORKERS_MOST)

struct worker {
	pid_t pid;
	int socket;		/* -1: it is gone */
	bool busy;
	bool urgent;		/* it has the priority of other programs */
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

/* As many as there are CPUs to spare for this process: from 1 to WORKERS_MOST. */
uint32_t workers_spare(void);

/*
 * Start them, with the tables to be written to the folder with the numbers from `first` on; of a
 * whole run (window->whole) one.  Returns 0; or -1 with errno, and there
 * are none.
 */
int workers_start(struct workers *workers, uint32_t count, const struct worker_options *options,
		  const char *folder, uint32_t first);

/*
 * The only worker follows a process that is about to execute its program.  Afterwards that is
 * seized, and may do so.  Returns 0, or -1 with errno.
 */
int workers_follow_program(struct workers *workers, pid_t pid, uint32_t window);

/* Keep off the CPUs that a process may use, if there are others. */
void workers_avoid(const struct workers *workers, pid_t pid);

/*
 * It gets no CPU time: retire it, and start one in its place that takes its share.  Returns the new
 * one; or NULL, and all is as before.
 */
struct worker *workers_replace(struct workers *workers, struct worker *starved);

/* Whether there is one that can get a job sooner or later; how many. */
uint32_t workers_serving(const struct workers *workers);

/* One without a job, or NULL. */
struct worker *workers_idle(struct workers *workers);

/* `recording`: a descriptor to give it, or -1.  Returns 0, or -1 with errno: the worker is gone. */
int workers_give(struct worker *worker, const struct worker_job *job, int recording);

/* What it has to say: true, or false if there is nothing (more). */
bool workers_hear(struct worker *worker, struct worker_news *news);

/*
 * Have all write their tables, wait for that, and let them end.  Returns how many are without
 * tables, because they were gone or could not write them (errno).
 */
uint32_t workers_finish(struct workers *workers);

/* Nothing is left of them. */
void workers_kill(struct workers *workers);

#endif
