/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the timing model needs of a block: its program (profiler/timing/), and
 * code that notes where references were made and how the block was left.  The
 * model is called with these at the start of the next block, if a window is
 * open: elsewhere notes are all that windows cost.
 */
#ifndef TLBSIM_TRACE_H
#define TLBSIM_TRACE_H

#include "block.h"
#include "program.h"

/* One block while it is being instrumented. */
struct trace {
	IRSB *out;
	struct block *block;
	Int ip_offset;			/* of the program counter in the guest state */
	struct program *program;
	struct noted_block *notes;	/* where its references are */
	UShort *noted;			/* numbers of temporaries' notes */
	UInt noted_count;
	UShort *values;			/* numbers of the block's temporaries' values */
	struct trace_value *known;	/* about values, by number */
	UShort value_count;
	UInt instruction, branches;
};

/* The block begins; its clock is known, and not yet advanced. */
void trace_start(struct trace *trace, struct block *block);
/* Before the statement is added. */
void trace_statement(struct trace *trace, const IRStmt *st);
/* The block is left at its end; frees what was needed to instrument it. */
void trace_end(struct trace *trace, const IRExpr *next, IRJumpKind kind);

/* notes.c: what a block's code notes when it runs. */
void notes_start(struct trace *trace);
/* Note where a reference is, if the guard holds; its number, or -1 if there are too many. */
Int note_reference(struct trace *trace, const IRExpr *address, IRExpr *guard);
/* Note that the block may be left here, by the last branch or not, and where it then goes if that is computed. */
void note_departure(struct trace *trace, Bool taken, const IRExpr *target);
void notes_end(struct trace *trace);

/*
 * values.c: the values of a block and the operations that make them.  Numbers
 * of values: 0 is what is always there; the last one serves for all beyond.
 */
void trace_values_start(struct trace *trace);
struct operation *trace_add(struct trace *trace, enum operation_kind kind);
UShort trace_new_value(struct trace *trace);
UShort trace_value_of(const struct trace *trace, const IRExpr *atom);
/* A value that is there `cycles` after both of these. */
UShort trace_join(struct trace *trace, UShort a, UShort b, UInt cycles);
/*
 * The result of integer arithmetic.  An instruction's is one cycle, however
 * many operations the translation made of it.
 */
UShort trace_arithmetic(struct trace *trace, UShort a, UShort b);
/* The result of any operation of two values. */
UShort trace_operation(struct trace *trace, IROp op, UShort a, UShort b);
/* What the guest state holds at an offset; and put a value there. */
UShort trace_get(struct trace *trace, Int offset);
void trace_put(struct trace *trace, Int offset, const IRExpr *data);
/* An address that the instruction itself makes costs no cycle of its own. */
UShort trace_address_of(struct trace *trace, const IRExpr *address);

#endif
