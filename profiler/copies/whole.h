/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that is followed itself, from its first instruction to its last: its calls are real,
 * and signals reach it.  What cannot be followed (another program, a second thread, code that
 * changes) ends this, and the program continues natively.
 */
#ifndef TLBCOST_COPIES_WHOLE_H
#define TLBCOST_COPIES_WHOLE_H

#include <stdbool.h>

#include "copy.h"

struct following;

/*
 * Seize a child of another process that has not executed its program yet.  Afterwards that may let
 * it execute; whole_await() waits for this and fills the copy.  Each returns 0, or -1 with errno:
 * ESRCH if it ended instead.
 */
int whole_seize(pid_t pid);
int whole_await(pid_t pid, struct copy *copy);

/* It is at a `syscall` instruction.  Returns CONTINUES or ENDED: following.h. */
int whole_call(struct following *following);

/* It is at an instruction that is not followed: that is executed natively. */
int whole_step(struct following *following);

/* It is in a stop by a signal: was that sent by a process? */
bool whole_is_sent(const struct following *following);

/* It is in a stop by this signal, anywhere. */
int whole_signal(struct following *following, int signal);

/* It continues natively, where it is. */
void whole_release(struct following *following);

/*
 * Stop tracing it, whatever its state; comes last.  If it was killed, reap it as its tracer: its
 * parent is not notified before.  A ptrace() that failed may be all that was seen of its death.
 */
void whole_let_go(pid_t pid);

#endif
