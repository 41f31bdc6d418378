/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The misses of each instruction, and of each stack of calls that was looked at. */
#ifndef TLBSIM_CODE_H
#define TLBSIM_CODE_H

#include "attribution.h"

struct code_misses {
	ULong instruction;
	DiEpoch epoch;		/* in which debug information tells what it is */
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

/* Count the walks since the last look, too. */
void code_settle(void);

#endif
