/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does a copy do at a system call?  Nothing that is visible outside it. */
#ifndef TLBCOST_COPIES_CALLS_H
#define TLBCOST_COPIES_CALLS_H

#include <stdint.h>

#include "copy.h"

enum call_verdict {
	CALL_ENDS,	/* the window ends before it */
	CALL_REAL,	/* the copy makes it */
	CALL_ANSWERED,	/* its result is in rax */
};

/*
 * The copy is about to make the call in its registers.  [area, area + area_bytes) is ours
 * and must stay.
 */
enum call_verdict calls_decide(const struct copy *copy, struct user_regs_struct *registers,
			       uint64_t area, uint64_t area_bytes);

#endif
