/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data references: collected into runs, and tested against the filter together.
 *
 * A run ends where control may leave the block, so it is executed completely or not at all.
 * At its end the code tests whether every reference is in a page of the filter; if one is not,
 * it calls the model with all of them, in order.  Then it writes the time of last use of each
 * range to the filter.
 *
 * References that differ from one base by constants (fields of a structure,
 * a stack frame) form a range of bytes and are tested together.
 */
#ifndef TLBSIM_RUNS_H
#define TLBSIM_RUNS_H

#include "emit.h"

/* Add a reference to the run being collected. */
void run_add(struct emitter *emitter, const IRExpr *address, Int size,
	     enum tlb_side side);
/* Add one that is made only if `condition` holds: a run of its own. */
void run_add_guarded(struct emitter *emitter, const IRExpr *address, Int size,
		     enum tlb_side side, IRExpr *condition);
/* End the run: nothing after it may come before its references. */
void run_end(struct emitter *emitter);

#endif
