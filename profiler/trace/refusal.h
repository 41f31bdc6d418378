/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a thread is not stopped, or not copied. */
#ifndef TLBCOST_TRACE_REFUSAL_H
#define TLBCOST_TRACE_REFUSAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "thread_facts.h"

enum injector_refusal {
	INJECTED,
	REFUSED_GONE,		/* the thread, or the program, has ended */
	REFUSED_PERMISSION,	/* ptrace: EPERM */
	REFUSED_TRACED,		/* another process traces it */
	REFUSED_BUSY,		/* it did not stop within the time: D state, vfork() */
	REFUSED_STOPPED,	/* it is stopped (SIGSTOP) or frozen */
	REFUSED_32BIT,
	REFUSED_SECCOMP,	/* a filter may kill it for an injected call */
	REFUSED_CLONE,		/* error: of clone() */
	REFUSED_NO_INSTRUCTION,	/* it has no syscall instruction to execute */
	REFUSED_FAILED,		/* error: of something else */
	REFUSED_SLEEPING,	/* it sleeps, and was left alone: see `sleeping` */
	REFUSED_HUGETLB,	/* copy-on-write would take pages of its pool */
	REFUSED_IO_URING,	/* the program has a ring, before Linux 5.12 */
	REFUSED_USERFAULTFD,	/* the program handles page faults and would see the copy */
};

/* For an errno of ptrace() or of /proc. */
enum injector_refusal refusal_of_error(int error);

/* For a thread that is not traced yet.  `sleeping`: it may be asleep. */
enum injector_refusal refusal_of_facts(const struct thread_facts *facts, bool sleeping);

/* PTRACE_SEIZE has failed, with errno. */
enum injector_refusal refusal_to_trace(pid_t program, pid_t thread);

/*
 * Does the stopped thread get a signal for its system calls, as under Wine
 * (PR_SET_SYSCALL_USER_DISPATCH)?  Visible since Linux 6.4.
 */
bool refusal_dispatches_calls(pid_t thread);

#endif
