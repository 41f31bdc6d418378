/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the timing model needs of a block: its program (profiler/timing/), and
 * code that notes the addresses of references and calls the model wherever the
 * block is left while a window is open.
 */
#ifndef TLBSIM_TRACE_H
#define TLBSIM_TRACE_H

#include "program.h"
#include "tlbsim.h"

/* One block while it is being instrumented. */
struct trace {
	IRSB *out;
	Int ip_offset;			/* of the program counter in the guest state */
	struct program *program;
	IRConst *name;			/* where the program is, once it is complete */
	IRExpr *open;			/* holds while a window is open */
	UShort *values;			/* numbers of the block's temporaries' values */
	struct trace_value *known;	/* about values, by number */
	UShort value_count;
	UInt instruction, references, branches;
};

/* The block begins, after the clock was advanced to `clock`. */
void trace_start(struct trace *trace, IRSB *out, const VexGuestLayout *layout,
		 IRExpr *clock);
/* Before the statement is added. */
void trace_statement(struct trace *trace, const IRStmt *st);
/* The block is left at its end; frees what was needed to instrument it. */
void trace_end(struct trace *trace, IRExpr *next, IRJumpKind kind);

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
