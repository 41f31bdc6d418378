/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an arm executes at its system calls: it answers them itself, from a recording, without a
 * stop. The kernel delivers each call as a signal (syscall user dispatch).
 *
 * The code is copied to the start of an area in the arm; this is the area's layout.
 */
#ifndef TLBCOST_COPIES_ANSWERS_CODE_H
#define TLBCOST_COPIES_ANSWERS_CODE_H

#include <stdint.h>

/* Offsets in the area.  Calls made by the code in the first part go to the kernel. */
#define ANSWERS_CODE_BYTES	0x2000u
#define ANSWERS_LOOP		ANSWERS_CODE_BYTES	/* our code whose calls are answered */
#define ANSWERS_STATE		(ANSWERS_LOOP + 0x1000u)
#define ANSWERS_STACK		(ANSWERS_STATE + 0x1000u)
#define ANSWERS_STACK_BYTES	0x20000u
#define ANSWERS_RECORDS		(ANSWERS_STACK + ANSWERS_STACK_BYTES)

#define ANSWERS_MARKS 16u
#define ANSWERS_CLOCKS 12u

/* Why the arm sleeps. */
enum answers_end {
	ANSWERS_RUNS,
	ANSWERS_ALL,		/* the recording is over */
	ANSWERS_OTHER,		/* the call differs from the recorded one */
	ANSWERS_SIGNAL,		/* a fault */
};

struct answers {
	uint8_t selector;	/* SYSCALL_DISPATCH_FILTER_* */
	uint8_t padding[3];
	uint32_t end;		/* enum answers_end */
	uint64_t start, bytes;	/* the area */
	/* struct recorded_call: the next one, and the end of the last. */
	uint64_t next, records_end;
	uint64_t calls;		/* answered */
	int64_t at_call;	/* ANSWERS_OTHER: the call; ANSWERS_SIGNAL: the signal */
	/* CLOCK_MONOTONIC of the last call, and how far other clocks were ahead of it. */
	uint64_t now_ns;
	int64_t ahead_ns[ANSWERS_CLOCKS];
	/* The CPU time after each `mark_every` calls. */
	uint64_t mark_every;
	uint32_t marks;
	uint32_t unused;
	uint64_t mark_ns[ANSWERS_MARKS];
};

/* The code, as it is in this process: from start to stop, and places in it. */
extern const char __start_answers_code[], __stop_answers_code[];
void answers_at_signal(int signal, const void *information, void *context);
void answers_return(void);
/* In place of the vDSO's functions. */
int answers_clock_gettime(int clock, int64_t *time);
int answers_gettimeofday(int64_t *time, int32_t *zone);
int64_t answers_time(int64_t *time);

#endif
