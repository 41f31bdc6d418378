/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One instruction of a copy is executed by the processor's single step. */
#ifndef TLBCOST_COPIES_STEP_H
#define TLBCOST_COPIES_STEP_H

#include <stdint.h>

#include "code_block.h"
#include "copy.h"
#include "instruction.h"

/* A gather or scatter has one for each element. */
#define STEP_MOST_REFERENCES 32u

/*
 * The references that the instruction can make; of a repeated one each is followed by its length.
 * Returns their number.
 */
unsigned step_references(const struct instruction *instruction,
			 struct code_reference references[STEP_MOST_REFERENCES]);

/*
 * Execute the instruction at registers->rip, which is this one, to its end.  addresses[i]: where
 * reference i was; 0: it was not made, its mask says so.  The registers are those after it.
 * Returns 0; the signal that it got instead, as a positive number; or -1 with errno.
 */
int step(const struct copy *copy, const struct instruction *instruction,
	 struct user_regs_struct *registers, uint64_t addresses[STEP_MOST_REFERENCES]);

#endif
