/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that is followed itself was stopped in translated code by a signal: what are the
 * program's own registers?
 */
#ifndef TLBCOST_COPIES_STOPPED_CODE_H
#define TLBCOST_COPIES_STOPPED_CODE_H

#include <stdbool.h>
#include <sys/types.h>

struct following;

/*
 * Wait for its next stop; one of the whole process, until that is continued.  Returns 0 with
 * *status, or -1: it is gone.
 */
int stopped_code_await(pid_t pid, int *status);

/*
 * Change following->registers to the program's, with rip where it is in its own code.  False: the
 * stop is between two of its instructions.  `faulted`: the one that it is at caused the stop.
 */
bool stopped_code_registers(struct following *following, bool faulted);

/*
 * Execute translated code to where they are known, and set them.  Returns CONTINUES or ENDED:
 * following.h.
 */
int stopped_code_leave(struct following *following);

#endif
