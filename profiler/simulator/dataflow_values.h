/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which values does a block have, and which operations make them?  Numbers of values: 0 is
 * always available; the last one stands for all beyond.
 */
#ifndef TLBSIM_DATAFLOW_VALUES_H
#define TLBSIM_DATAFLOW_VALUES_H

#include "emit.h"

#include "timing/block.h"

/* One block while it is being instrumented. */
struct dataflow {
	IRSB *out;
	struct emitter *emitter;
	Int ip_offset;			/* of the program counter in the guest state */
	struct block *block;
	struct noted_block *notes;	/* where its references are */
	UShort *noted;			/* numbers of temporaries' notes */
	UInt noted_count;
	UShort *values;			/* numbers of the block's temporaries' values */
	struct value_origin *origins;	/* of values, by number */
	UShort value_count;
	UInt instruction, branches;
};

void dataflow_values_start(struct dataflow *flow);
void dataflow_values_end(struct dataflow *flow);

struct operation *dataflow_add(struct dataflow *flow, enum operation_kind kind);
UShort dataflow_new_value(struct dataflow *flow);
UShort dataflow_value_of(const struct dataflow *flow, const IRExpr *atom);
/* A value that is available `cycles` after both of these. */
UShort dataflow_join(struct dataflow *flow, UShort a, UShort b, UInt cycles);
/*
 * The result of integer arithmetic.  One cycle per instruction, however many operations the
 * translation made of it.
 */
UShort dataflow_arithmetic(struct dataflow *flow, UShort a, UShort b);
/* The result of any operation of two values. */
UShort dataflow_operation(struct dataflow *flow, IROp op, UShort a, UShort b);
/* What the guest state holds at an offset; and put a value there. */
UShort dataflow_get(struct dataflow *flow, Int offset);
void dataflow_put(struct dataflow *flow, Int offset, const IRExpr *data);
/* An address that the instruction itself computes costs no additional cycle. */
UShort dataflow_address_of(struct dataflow *flow, const IRExpr *address);

#endif
