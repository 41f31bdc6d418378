/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which system calls does a thread make after it was copied, and what do they return?  Its copy
 * must make none of them: it gets the same results (replay.h).
 *
 * A recording is a file in memory: records one after the other, each a struct recorded_call, its
 * outputs (struct recorded_output), and then the bytes of each output, padded to a multiple of 8.
 */
#ifndef TLBCOST_COPIES_RECORDER_H
#define TLBCOST_COPIES_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct recorded_output {
	uint64_t address, bytes;
};

struct recorded_call {
	int64_t call;		/* its number */
	uint64_t arguments[6];
	int64_t result;		/* -errno for an error */
	uint64_t at_ns;		/* CLOCK_MONOTONIC when it returned */
	uint32_t output_count;
	uint32_t record_bytes;	/* of all of this record: where the next begins */
};

#define RECORDED_MOST_OUTPUTS 64u

/*
 * The memory written by a call that has returned in `thread`, whose memory may be read.  Returns
 * the number of outputs; or -1 if they are not known for this call.
 */
int recorded_outputs(pid_t thread, const struct recorded_call *call,
		     struct recorded_output outputs[RECORDED_MOST_OUTPUTS]);

/* What is recorded, and how long. */
struct recorder {
	pid_t thread;		/* traced by the caller, with PTRACE_O_TRACESYSGOOD */
	int file;		/* where it is written */
	uint32_t most_calls, most_ms;
	/*
	 * A thread that waits for two thirds of its time has requests that wait for it: end once no
	 * call of it has waited for this long.  0: record on.
	 */
	uint64_t behind_ns;
	uint32_t calls;		/* recorded */
	uint64_t bytes;
	bool behind;		/* ended by behind_ns */
};

/* How it ended. */
enum recorder_end {
	RECORDER_STOPPED,	/* it is in a ptrace stop: detach, with `signal` */
	RECORDER_RUNS,		/* it runs, or waits in a call: detach when it stops next */
	RECORDER_GONE,
};

/*
 * Of a thread that was resumed with PTRACE_SYSCALL.  Ends when the limits are reached; at a signal;
 * and at calls whose outputs are not known, or that start or end something: those are not recorded.
 */
enum recorder_end recorder_run(struct recorder *recorder, int *signal);

#endif
