/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why is a thread not copied? */
#ifndef TLBCOST_COPIES_REFUSAL_H
#define TLBCOST_COPIES_REFUSAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "injector.h"
#include "thread_facts.h"

/* What an errno of ptrace() or of /proc means. */
enum injector_refusal refusal_of_error(int error);

/* Of a thread that is not traced yet.  `sleeping`: it may be asleep. */
enum injector_refusal refusal_of_facts(const struct thread_facts *facts, bool sleeping);

/* PTRACE_SEIZE has failed, with errno. */
enum injector_refusal refusal_to_trace(pid_t program, pid_t thread);

/*
 * Wine's way (PR_SET_SYSCALL_USER_DISPATCH): the stopped thread has a signal instead of a system
 * call.  Linux 6.4 and later tell.
 */
bool refusal_dispatches_calls(pid_t thread);

#endif
