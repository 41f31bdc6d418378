/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program and its copies: the state of sampling.c and sampled_copy.c. */
#ifndef TLBCOST_COPIES_SAMPLING_STATE_H
#define TLBCOST_COPIES_SAMPLING_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget.h"
#include "copies_table.h"
#include "processes.h"
#include "workers.h"

struct sampling_options {
	double fraction;		/* see struct budget */
	uint64_t copies, expected_cpu_ns, fault_ns;
	uint64_t most_pause_ns;		/* see budget.h */
	uint64_t seed;
	pid_t thread;			/* the only one that is copied; 0: any */
	bool hold;			/* threads wait while a copy lives */
	bool children;			/* of the program, too */
	uint32_t record_calls, record_ms;
	uint32_t first_window;
	uint64_t window_ns;		/* most real time of a window */
	bool arms;			/* copies have arms: these may outlive the program */
	uint64_t until_ns;		/* of arms: see waiting.h; 0: no limit */
};

/* A copy that is followed: one for each worker. */
struct sampled_copy {
	bool alive, modelled;		/* modelled: its worker is still busy with it */
	const char *cut;		/* we killed it early: why, as the result */
	struct copy copy;
	size_t row;
	bool sibling;			/* we reap it */
	bool orphaned;			/* the system reaps it */
	struct process *process;
	uint64_t image, faults, cpu_ns;	/* of the process when it was made */
	uint64_t begun_cpu_ns;		/* of all processes */
	double fault_rate;		/* per ns of CPU time, before */
	uint64_t lost_ns;		/* CPU time that the program lost while it was made */
	uint64_t given_ns;		/* CLOCK_MONOTONIC when a worker got it */
};

#define WAITING_MOST 8u

/* One for which no worker is free yet. */
struct waiting_copy {
	struct sampled_copy sampled;
	struct worker_job job;
	int recording;			/* a descriptor, or -1 */
};

/* Fields are private but fd, refused and rows. */
struct sampling {
	int fd;				/* for watch_hook: an epoll's */
	struct copies_rows rows;
	const char *stopped;		/* why there are no more copies: a word; NULL */
	struct sampling_options options;
	struct budget budget;
	struct workers *workers;
	struct processes processes;
	struct sampled_copy copies[WORKERS_SLOTS];
	struct waiting_copy waiting[WAITING_MOST];
	unsigned waiting_count;
	uint64_t made;			/* copies */
	/* Copies of which arms were measured; real time that the last one took. */
	uint64_t measured, measuring_ns;
	int timer, injector;
	pid_t injector_pid, pid;
	bool launched, executed;
	bool over;			/* the program has ended */
	uint64_t first_image, random, start_ns;
	uint32_t next_window;
	uint64_t stratum_ns, instant_ns, length_ns;	/* of the program's CPU time */
	/*
	 * The last row, whose stratum may not be over: its index, and the user time at its
	 * beginning.
	 */
	ssize_t open_row;
	uint64_t open_user_ns;
	uint64_t pace_ns;		/* program CPU time during which a copy keeps a worker */
	unsigned tries, refused;	/* of this instant; in a row */
	uint64_t looked_ns, looked_cpu_ns, tree_ns, patience_ns;
};

#endif
