/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An arm: a process forked from a copy that itself never runs.  It runs natively, from the instant
 * of the copy on, and no call of its own is seen outside of it.
 */
#ifndef TLBCOST_COPIES_ARM_H
#define TLBCOST_COPIES_ARM_H

#include <stdbool.h>
#include <stdint.h>

#include "check_point.h"
#include "copy.h"
#include "shared_memory.h"

struct arm {
	struct copy copy;		/* pid 0: there is none */
	struct user_regs_struct registers;	/* where it is */
	/* It has come to a call that it must not make, and stays there: its number; else -1. */
	int64_t at_call;
	bool untraced;			/* answers.h let it run */
	struct shared_memory shared;
};

/* How a stretch ended. */
enum arm_end {
	ARM_TIME,		/* its time is over */
	ARM_CHECKED,		/* it is at the check point */
	ARM_TIGHT,		/* candidates were hit too often: the code is a tight loop */
	ARM_CALL,		/* at_call */
	ARM_SIGNAL,		/* a fault, or a signal of its own */
	ARM_LATE,		/* it does not come to the check point */
	ARM_GONE,
};

/* What its runs took, including our stops. */
struct arm_stretch {
	uint64_t cpu_ns;	/* of the process, in user and kernel mode */
	uint64_t faults;	/* page faults */
	uint32_t stops;		/* by check points and calls */
};

/*
 * Fork it from a copy that is stopped, with none of its shared memory.  Returns 0; or -1 with errno,
 * and there is none.
 */
int arm_fork(struct arm *arm, struct copy *from);

/* Kill it, and let the copy that it was forked from reap it.  Safe if there is none. */
void arm_kill(struct arm *arm, struct copy *from);

/* It makes one call for real.  The kernel's result, or COPY_LOST. */
int64_t arm_call(struct arm *arm, long number, const uint64_t arguments[6]);

/*
 * Let it run on for `ns` in user mode, about; with a check point, until that, or for `ns` of CPU
 * time.  Adds to the stretch.  SIGCHLD is blocked.
 */
enum arm_end arm_run(struct arm *arm, struct check_point *until, uint64_t ns,
		     struct arm_stretch *stretch);

#endif
