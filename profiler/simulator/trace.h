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

#endif
