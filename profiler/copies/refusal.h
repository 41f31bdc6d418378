/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why is a thread not copied? */
#ifndef TLBCOST_COPIES_REFUSAL_H
#define TLBCOST_COPIES_REFUSAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "injector.h"
#include "thread_facts.h"

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
