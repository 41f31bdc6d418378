/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A block of the program's code while it is being instrumented: the expressions of our code in
 * it, and the look-up in a filter.
 */
#ifndef TLBSIM_EMIT_H
#define TLBSIM_EMIT_H

#include "run.h"

#include "tlb/model.h"

#include "pub_tool_tooliface.h"

/* A range being collected. */
struct open_range {
	IRTemp base;		/* IRTemp_INVALID: absolute */
	Long low, high;		/* offsets: first byte, and past the last */
	UInt last;		/* index in the run of its last reference */
	IRExpr *slot;		/* its filter slot: bytes from the table */
};

struct emitter {
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
	/* The run being collected. */
	struct reference references[RUN_REFERENCES];
	UInt count;
	struct open_range ranges[RUN_BASES];
	UInt range_count;
};

/* Add an expression; each returns the temporary that holds its value. */
IRExpr *emit_assign(struct emitter *emitter, IRType type, IRExpr *expression);
IRExpr *emit_binary(struct emitter *emitter, IROp op, IRExpr *a, IRExpr *b);
IRExpr *emit_load(struct emitter *emitter, IRExpr *address);
/* A condition that holds unless `value` is below `limit`. */
IRExpr *emit_not_below(struct emitter *emitter, IRExpr *value, ULong limit);
/* The time of the block's reference number `index`. */
IRExpr *emit_time(struct emitter *emitter, UInt index);

/* A 64-bit constant. */
IRExpr *emit_word(ULong value);

/* Where in a filter the slot of an address is, in bytes from its start. */
IRExpr *filter_slot(struct emitter *emitter, IRExpr *address);
/* The address of a field of that slot. */
IRExpr *filter_field(struct emitter *emitter, const struct tlb_filter *filter,
		     IRExpr *slot, SizeT field);
/* How far an address is from the page in its slot. */
IRExpr *filter_distance(struct emitter *emitter, const struct tlb_filter *filter,
			IRExpr *address, IRExpr *slot);

#endif
