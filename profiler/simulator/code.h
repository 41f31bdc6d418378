/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which instructions miss, and through which calls? */
#ifndef TLBSIM_CODE_H
#define TLBSIM_CODE_H

#include "misses.h"

#include "pub_tool_debuginfo.h"
#include "pub_tool_execontext.h"

struct code_misses {
	ULong instruction;
	DiEpoch epoch;		/* whose debug information describes it */
	Bool used;
	struct misses counted[TLB_SIZES][MISSES_SIDES];
};

struct code_table {
	struct code_misses *code;	/* hash table; those not used are empty */
	UInt capacity, count;
};

extern struct code_table code_table;

#define STACK_SLOTS 8192u
#define MOST_STACKS 4096u

struct stack_walks {
	ExeContext *stack;	/* NULL: empty */
	ULong walks[TLB_SIZES];		/* that it stands for */
};

struct stack_table {
	struct stack_walks stack[STACK_SLOTS];	/* hash table */
	struct stack_walks other;	/* there are too many */
	UInt count;
};

extern struct stack_table stack_table;

/* Start with no misses. */
void code_start(void);
void code_missed(ULong instruction, enum tlb_size size, enum tlb_side side, bool walk);

/* Also count the walks since the last sample of the stack. */
void code_settle(void);

#endif
