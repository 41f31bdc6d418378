/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values of a block, and the operations that make them. */
#include "latencies.h"
#include "trace.h"

#include "pub_tool_mallocfree.h"

/* How a value was made, as far as addresses are concerned. */
struct trace_value {
	UInt instruction;	/* in which an arithmetic cycle was charged; 0: none */
	UInt operation;		/* that has it */
};

void trace_values_start(struct trace *trace)
{
	trace->values = VG_(calloc)("tlbsim.values",
				    (SizeT)trace->out->tyenv->types_used + 1,
				    sizeof(*trace->values));
	/* The others are set when they are made. */
	trace->known = VG_(malloc)("tlbsim.known", PROGRAM_VALUES *
						   sizeof(*trace->known));
	trace->known[0] = (struct trace_value){ 0, 0 };
}

struct operation *trace_add(struct trace *trace, enum operation_kind kind)
{
	struct program *program = trace->program;

	if (program->count == program->capacity) {
		program->capacity *= 2;
		trace->program = program = VG_(realloc)(
			"tlbsim.program", program,
			sizeof(*program) +
				program->capacity * sizeof(program->operations[0]));
	}
	program->operations[program->count] =
		(struct operation){ (UChar)kind, 0, 0, 0, 0 };
	return &program->operations[program->count++];
}

UShort trace_new_value(struct trace *trace)
{
	if (trace->value_count < PROGRAM_VALUES - 1)
		trace->value_count++;
	trace->known[trace->value_count] = (struct trace_value){ 0, 0 };
	return trace->value_count;
}

UShort trace_value_of(const struct trace *trace, const IRExpr *atom)
{
	return atom->tag == Iex_RdTmp ? trace->values[atom->Iex.RdTmp.tmp] : 0;
}

UShort trace_join(struct trace *trace, UShort a, UShort b, UInt cycles)
{
	UShort to = trace_new_value(trace);
	struct operation *op = trace_add(trace, OP_JOIN);

	op->to = to;
	op->a = a;
	op->b = b;
	op->cycles = (UChar)cycles;
	return to;
}

UShort trace_arithmetic(struct trace *trace, UShort a, UShort b)
{
	UShort paid = trace->known[b].instruction == trace->instruction ? b : a;
	struct trace_value known = trace->known[paid];
	UShort to;

	if (paid && known.instruction == trace->instruction) {
		to = trace_join(trace, a, b, 0);
		trace->known[to] = known;
	} else {
		to = trace_join(trace, a, b, 1);
		trace->known[to] = (struct trace_value){
			trace->instruction, trace->program->count - 1
		};
	}
	return to;
}

UShort trace_get(struct trace *trace, Int offset)
{
	UShort to = trace_new_value(trace);
	struct operation *op = trace_add(trace, OP_GET);

	op->to = to;
	op->a = (UShort)((UInt)offset / 8 % CORE_REGISTERS);
	return to;
}

UShort trace_operation(struct trace *trace, IROp op, UShort a, UShort b)
{
	UInt cycles = latency_of(op);

	if (cycles == LATENCY_NONE)
		return a && b ? trace_join(trace, a, b, 0) : a ? a : b;
	if (cycles == LATENCY_INTEGER)
		return trace_arithmetic(trace, a, b);
	return trace_join(trace, a, b, cycles);
}

void trace_put(struct trace *trace, Int offset, const IRExpr *data)
{
	Int bytes = sizeofIRType(typeOfIRExpr(trace->out->tyenv, data));
	struct operation *op;

	if (offset == trace->ip_offset)
		return;
	op = trace_add(trace, OP_PUT);
	op->to = (UShort)((UInt)offset / 8);
	op->a = trace_value_of(trace, data);
	op->b = (UShort)(bytes > 8 ? bytes / 8 : 1);
	if (op->to + op->b > CORE_REGISTERS)
		trace->program->count--;
}

UShort trace_address_of(struct trace *trace, const IRExpr *address)
{
	UShort value = trace_value_of(trace, address);
	const struct trace_value *known = &trace->known[value];

	if (value && known->instruction == trace->instruction)
		trace->program->operations[known->operation].cycles = 0;
	return value;
}
