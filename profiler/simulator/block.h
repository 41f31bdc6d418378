/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A block of the program's code while it is being instrumented. */
#ifndef TLBSIM_BLOCK_H
#define TLBSIM_BLOCK_H

#include "tlbsim.h"

/* A range being gathered. */
struct open_range {
	IRTemp base;		/* IRTemp_INVALID: absolute */
	Long low, high;		/* offsets: first byte, and past the last */
	UInt last;		/* index in the run of its last reference */
	IRExpr *slot;		/* where its filter slot is: bytes from the table */
};

struct block {
	IRSB *out;
	const VexGuestLayout *layout;
	ULong start, instruction;	/* addresses: of the block, the one in hand */
	Int stack_delta;		/* see struct run */
	/* Of each temporary: base + offset, if it is that. */
	struct { IRTemp base; Long offset; } *address;
	IRExpr *clock;		/* time at the block's start */
	UInt time;		/* references so far */
	ULong code_page;	/* that the last instruction was in */
	/* Runs made so far: their distance from the end is not known yet. */
	struct run *runs;
	/* The run being gathered. */
	struct reference references[RUN_REFERENCES];
	UInt count;
	struct open_range ranges[RUN_BASES];
	UInt range_count;
};

/* Add an expression; each returns the temporary that holds its value. */
IRExpr *block_assign(struct block *block, IRType type, IRExpr *expression);
IRExpr *block_binary(struct block *block, IROp op, IRExpr *a, IRExpr *b);
IRExpr *block_load(struct block *block, IRExpr *address);
/* A condition that holds unless `value` is below `limit`. */
IRExpr *block_not_below(struct block *block, IRExpr *value, ULong limit);
/* The time of the block's reference number `index`. */
IRExpr *block_time(struct block *block, UInt index);

/* A 64-bit constant. */
IRExpr *word(ULong value);

/* Where in a filter the slot of an address is, in bytes from its start. */
IRExpr *filter_slot(struct block *block, IRExpr *address);
/* The address of a field of that slot. */
IRExpr *filter_field(struct block *block, const struct tlb_filter *filter,
		     IRExpr *slot, SizeT field);
/* How far an address is from the page in its slot. */
IRExpr *filter_distance(struct block *block, const struct tlb_filter *filter,
			IRExpr *address, IRExpr *slot);

/* runs.c: add a reference to the run that is being gathered. */
void run_add(struct block *block, const IRExpr *address, Int size,
	     enum tlb_side side);
/* Add one that is made only if `condition` holds: a run of its own. */
void run_add_guarded(struct block *block, const IRExpr *address, Int size,
		     enum tlb_side side, IRExpr *condition);
/* End the run: nothing that follows may come before its references. */
void run_end(struct block *block);

/*
 * fetches.c: the code pages that the block executes: where it starts, an
 * instruction (its IMark), where it may be left, and where it goes on.  The
 * last two end the run.
 */
void fetch_start(struct block *block, ULong address);
void fetch_instruction(struct block *block, const IRStmt *mark);
void fetch_exit(struct block *block, const IRStmt *exit);
void fetch_next(struct block *block, const IRExpr *next);

#endif
