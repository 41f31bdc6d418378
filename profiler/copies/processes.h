/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes belong to the program, what CPU time have they used, and which threads run? */
#ifndef TLBCOST_COPIES_PROCESSES_H
#define TLBCOST_COPIES_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_MOST_DEAD 32u

/* Its progress at a time. */
struct process_pace {
	uint64_t at_ns;		/* CLOCK_MONOTONIC */
	uint64_t user_ns;
};

struct process {
	pid_t pid;
	bool gone;
	uint64_t cpu_ns, user_ns;
	uint64_t image;		/* other after execve() */
	/* Copies that it has yet to reap, as it sees them, and as we do. */
	uint32_t dead_count;
	pid_t dead_inner[PROCESS_MOST_DEAD], dead[PROCESS_MOST_DEAD];
	/* Page faults: per ns of CPU time lately; and since the last copy of it died. */
	double fault_rate;
	uint64_t faults, faults_cpu_ns, dead_faults, dead_cpu_ns, shared_pages;
	size_t dead_row;	/* of that copy, in the table */
	/* Transparent huge pages: looked at now and then. */
	uint64_t huge_looked_ns, huge_bytes;
	bool ended_by_call;	/* a window was, without a recording */
	struct process_pace resumed;	/* since it was last stopped for a copy */
};

struct processes {
	struct process **all;	/* those that are gone, too */
	size_t count, capacity;
	pid_t only;		/* this thread alone is drawn; 0: any */
	bool children;		/* its descendants are followed as well */
	/* What all have used since processes_open(); user time as sampled by clock ticks. */
	uint64_t cpu_ns, user_ns;
	uint64_t before_ns;	/* that the first had used by then */
	uint64_t threads_seen;	/* most threads at once */
	/* Is it one of our copies, not a child of the program? */
	bool (*is_copy)(void *context, pid_t pid);
	void *context;
};

/* Zeroed but for only, children, is_copy and context.  Returns 0, or -1 with errno. */
int processes_open(struct processes *processes, pid_t pid);
void processes_close(struct processes *processes);

/* Update CPU times; with `tree`, also look for new processes. */
void processes_look(struct processes *processes, bool tree);

/* A random thread that runs or is runnable; 0: there is none. */
pid_t processes_draw(struct processes *processes, uint64_t *random, struct process **process);

/* What /proc says of a process now.  Returns 0, or -1 if it is gone. */
struct process_status {
	char state;
	uint64_t minor_faults, resident_bytes, image;
};

int process_status(pid_t pid, struct process_status *status);

/* CPU time of any process, in ns; 0 if it is gone. */
uint64_t process_cpu_ns(pid_t pid);
uint64_t process_user_ns(pid_t pid);

/* Bytes of its memory on transparent huge pages; UINT64_MAX: not known. */
uint64_t process_huge_bytes(struct process *process, uint64_t now_ns);

#endif
