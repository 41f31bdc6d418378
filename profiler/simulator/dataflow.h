/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does the timing model need of a block?  The operations of its code
 * (profiler/timing/block.h), and code that notes where references were made and how the block
 * was left.  The model is called with these at the start of the next block if a window is
 * open: outside of windows, notes are their only cost.
 */
#ifndef TLBSIM_DATAFLOW_H
#define TLBSIM_DATAFLOW_H

#include "dataflow_values.h"

/* The block begins; its clock is known, and not yet advanced. */
void dataflow_start(struct dataflow *flow, struct emitter *emitter);
/* Before the statement is added. */
void dataflow_statement(struct dataflow *flow, const IRStmt *st);
/* The block's end; frees what was needed to instrument it. */
void dataflow_end(struct dataflow *flow, const IRExpr *next, IRJumpKind kind);

#endif
