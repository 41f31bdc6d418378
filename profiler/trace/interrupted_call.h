/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which system call did a stop interrupt, and how does it continue? */
#ifndef TLBCOST_TRACE_INTERRUPTED_CALL_H
#define TLBCOST_TRACE_INTERRUPTED_CALL_H

#include <stdbool.h>
#include <sys/user.h>

enum interrupted_call {
	CALL_OVER,	/* there is none, or it has returned */
	CALL_RESTARTED,	/* the kernel restarts it, if the registers are unchanged */
	CALL_REWOUND,	/* it failed with EINTR because of us: `own` is changed to make it again */
};

/*
 * `own`: registers of a thread in a stop of PTRACE_INTERRUPT; `start`: the same, changed so that
 * the thread makes the call again wherever it is continued.  `signalled`: a signal is pending that
 * interrupts calls.
 */
enum interrupted_call interrupted_call(struct user_regs_struct *own,
				       struct user_regs_struct *start, bool signalled);

#endif
