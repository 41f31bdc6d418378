/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "dataflow_values.h"
#include "latencies.h"

#include "pub_tool_mallocfree.h"

/* How a value was computed, for addresses. */
struct value_origin {
	UInt instruction;	/* in which an arithmetic cycle was charged; 0: none */
	UInt operation;		/* that has it */
};

void dataflow_values_start(struct dataflow *flow)
{
	flow->values = VG_(calloc)("tlbsim.values",
				    (SizeT)flow->out->tyenv->types_used + 1,
				    sizeof(*flow->values));
	/* The others are set when they are made. */
	flow->origins = VG_(malloc)("tlbsim.origins", BLOCK_VALUES *
				   sizeof(*flow->origins));
	flow->origins[0] = (struct value_origin){ 0, 0 };
}

void dataflow_values_end(struct dataflow *flow)
{
	VG_(free)(flow->values);
	VG_(free)(flow->origins);
}

struct operation *dataflow_add(struct dataflow *flow, enum operation_kind kind)
{
	struct block *block = flow->block;

	if (block->count == block->capacity) {
		block->capacity *= 2;
		flow->block = block = VG_(realloc)(
			"tlbsim.block", block,
			sizeof(*block) +
				block->capacity * sizeof(block->operations[0]));
	}
	block->operations[block->count] =
		(struct operation){ (UChar)kind, 0, 0, 0, 0 };
	return &block->operations[block->count++];
}

UShort dataflow_new_value(struct dataflow *flow)
{
	if (flow->value_count < BLOCK_VALUES - 1)
		flow->value_count++;
	flow->origins[flow->value_count] = (struct value_origin){ 0, 0 };
	return flow->value_count;
}

UShort dataflow_value_of(const struct dataflow *flow, const IRExpr *atom)
{
	return atom->tag == Iex_RdTmp ? flow->values[atom->Iex.RdTmp.tmp] : 0;
}

UShort dataflow_join(struct dataflow *flow, UShort a, UShort b, UInt cycles)
{
	UShort to = dataflow_new_value(flow);
	struct operation *op = dataflow_add(flow, OP_JOIN);

	op->to = to;
	op->a = a;
	op->b = b;
	op->cycles = (UChar)cycles;
	return to;
}

UShort dataflow_arithmetic(struct dataflow *flow, UShort a, UShort b)
{
	UShort charged = flow->origins[b].instruction == flow->instruction ? b : a;
	struct value_origin known = flow->origins[charged];
	UShort to;

	if (charged && known.instruction == flow->instruction) {
		to = dataflow_join(flow, a, b, 0);
		flow->origins[to] = known;
	} else {
		to = dataflow_join(flow, a, b, 1);
		flow->origins[to] = (struct value_origin){
			flow->instruction, flow->block->count - 1
		};
	}
	return to;
}

UShort dataflow_get(struct dataflow *flow, Int offset)
{
	UShort to = dataflow_new_value(flow);
	struct operation *op = dataflow_add(flow, OP_GET);

	op->to = to;
	op->a = (UShort)((UInt)offset / 8 % CORE_REGISTERS);
	return to;
}

UShort dataflow_operation(struct dataflow *flow, IROp op, UShort a, UShort b)
{
	UInt cycles = latency_of(op);

	if (cycles == LATENCY_NONE)
		return a && b ? dataflow_join(flow, a, b, 0) : a ? a : b;
	if (cycles == LATENCY_INTEGER)
		return dataflow_arithmetic(flow, a, b);
	return dataflow_join(flow, a, b, cycles);
}

void dataflow_put(struct dataflow *flow, Int offset, const IRExpr *data)
{
	Int bytes = sizeofIRType(typeOfIRExpr(flow->out->tyenv, data));
	struct operation *op;

	if (offset == flow->ip_offset)
		return;
	op = dataflow_add(flow, OP_PUT);
	op->to = (UShort)((UInt)offset / 8);
	op->a = dataflow_value_of(flow, data);
	op->b = (UShort)(bytes > 8 ? bytes / 8 : 1);
	if (op->to + op->b > CORE_REGISTERS)
		flow->block->count--;
}

UShort dataflow_address_of(struct dataflow *flow, const IRExpr *address)
{
	UShort value = dataflow_value_of(flow, address);
	const struct value_origin *known = &flow->origins[value];

	if (value && known->instruction == flow->instruction)
		flow->block->operations[known->operation].cycles = 0;
	return value;
}
