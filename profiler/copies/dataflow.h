/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does the timing model need of a block of x86-64 instructions? */
#ifndef TLBCOST_COPIES_DATAFLOW_H
#define TLBCOST_COPIES_DATAFLOW_H

#include <stdbool.h>

#include "code_block.h"
#include "instruction.h"
#include "timing/block.h"

/* A block for the model, and how it is left.  Freed with free(). */
struct timed_block {
	struct departure taken, not_taken;	/* ->target is set when it is known */
	struct block *block;	/* in the same piece of memory */
	bool repeats;		/* string instructions: string_lines_run() comes next */
};

/*
 * References have the numbers that they have in `code`; of a string instruction that repeats the
 * block has the first access of each operand.  Returns NULL with errno.
 */
struct timed_block *dataflow_of(const struct code_block *code,
				const struct instruction *decoded);

#endif
