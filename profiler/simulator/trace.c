/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "latencies.h"
#include "trace.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

static UShort load(struct trace *trace, IRExpr *address, IRExpr *guard)
{
	UShort from = trace_address_of(trace, address), to;
	Int reference = note_reference(trace, address, guard);
	struct operation *op;

	if (guard)
		from = trace_join(trace, from, trace_value_of(trace, guard), 0);
	if (reference < 0)
		return from;
	to = trace_new_value(trace);
	op = trace_add(trace, OP_LOAD);
	op->to = to;
	op->a = from;
	op->b = (UShort)reference;
	return to;
}

static void store(struct trace *trace, IRExpr *address, UShort data, IRExpr *guard)
{
	UShort from = trace_address_of(trace, address);
	Int reference = note_reference(trace, address, guard);
	struct operation *op;

	if (guard)
		from = trace_join(trace, from, trace_value_of(trace, guard), 0);
	if (reference < 0)
		return;
	op = trace_add(trace, OP_STORE);
	op->to = (UShort)reference;
	op->a = from;
	op->b = data;
}

static UShort fence(struct trace *trace)
{
	UShort to = trace_new_value(trace);

	trace_add(trace, OP_FENCE)->to = to;
	return to;
}

static UShort expression(struct trace *trace, const IRExpr *e)
{
	UShort a, b;

	switch (e->tag) {
	case Iex_Get: return trace_get(trace, e->Iex.Get.offset);
	case Iex_RdTmp: return trace_value_of(trace, e);
	case Iex_Load: return load(trace, e->Iex.Load.addr, NULL);
	case Iex_Unop:
		return trace_operation(trace, e->Iex.Unop.op,
				 trace_value_of(trace, e->Iex.Unop.arg), 0);
	case Iex_Binop:
		a = trace_value_of(trace, e->Iex.Binop.arg1);
		b = trace_value_of(trace, e->Iex.Binop.arg2);
		return trace_operation(trace, e->Iex.Binop.op, a, b);
	case Iex_Triop:
		/* The first is the rounding mode, which hardly changes. */
		a = trace_value_of(trace, e->Iex.Triop.details->arg2);
		b = trace_value_of(trace, e->Iex.Triop.details->arg3);
		return trace_operation(trace, e->Iex.Triop.details->op, a, b);
	case Iex_Qop:
		a = trace_value_of(trace, e->Iex.Qop.details->arg2);
		b = trace_value_of(trace, e->Iex.Qop.details->arg3);
		a = trace_join(trace, a, b, 0);
		b = trace_value_of(trace, e->Iex.Qop.details->arg4);
		return trace_operation(trace, e->Iex.Qop.details->op, a, b);
	case Iex_ITE:
		a = trace_value_of(trace, e->Iex.ITE.iftrue);
		b = trace_value_of(trace, e->Iex.ITE.iffalse);
		a = trace_join(trace, a, b, 0);
		return trace_arithmetic(trace, a, trace_value_of(trace, e->Iex.ITE.cond));
	case Iex_CCall:
		/* Conditions, from the flags that an instruction left. */
		a = 0;
		for (IRExpr **argument = e->Iex.CCall.args; *argument; argument++)
			a = trace_join(trace, a, trace_value_of(trace, *argument), 0);
		return trace_arithmetic(trace, a, 0);
	default: return 0;
	}
}

static void compare_and_swap(struct trace *trace, const IRCAS *cas)
{
	UShort old;

	fence(trace);
	old = load(trace, cas->addr, NULL);
	trace->values[cas->oldLo] = old;
	if (cas->oldHi != IRTemp_INVALID)
		trace->values[cas->oldHi] = old;
	store(trace, cas->addr, trace_join(trace, old, trace_value_of(trace, cas->dataLo), 1),
	      NULL);
	fence(trace);
}

/* A call of an emulation: an instruction that is not often used. */
static void dirty(struct trace *trace, const IRDirty *call)
{
	UShort value = 0;

	for (IRExpr **argument = call->args; *argument; argument++)
		if (!is_IRExpr_VECRET_or_GSPTR(*argument))
			value = trace_join(trace, value, trace_value_of(trace, *argument), 0);
	if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
		value = trace_join(trace, value, load(trace, call->mAddr, NULL), 0);
	if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
		store(trace, call->mAddr, value, NULL);
	if (call->tmp != IRTemp_INVALID)
		trace->values[call->tmp] = trace_join(trace, value, 0, LATENCY_CALL);
}

void trace_start(struct trace *trace, struct block *block)
{
	const UInt capacity = 64;

	VG_(memset)(trace, 0, sizeof(*trace));
	trace->out = block->out;
	trace->block = block;
	trace->ip_offset = block->layout->offset_IP;
	trace->program = VG_(malloc)(
		"tlbsim.program",
		sizeof(*trace->program) +
			capacity * sizeof(trace->program->operations[0]));
	trace->program->count = 0;
	trace->program->capacity = capacity;
	trace_values_start(trace);
	notes_start(trace);
}

static void exit_statement(struct trace *trace, const IRStmt *st)
{
	Bool branch = st->Ist.Exit.jk == Ijk_Boring &&
		      trace->branches < PROGRAM_BRANCHES;

	if (branch) {
		struct operation *op = trace_add(trace, OP_BRANCH);

		op->a = trace_value_of(trace, st->Ist.Exit.guard);
		op->b = (UShort)trace->branches++;
	}
	note_departure(trace, branch, NULL);
}

static void conditional(struct trace *trace, const IRStmt *st)
{
	if (st->tag == Ist_LoadG) {
		const IRLoadG *l = st->Ist.LoadG.details;
		UShort loaded = load(trace, l->addr, l->guard);

		trace->values[l->dst] =
			trace_join(trace, loaded, trace_value_of(trace, l->alt), 0);
	} else {
		const IRStoreG *s = st->Ist.StoreG.details;

		store(trace, s->addr, trace_value_of(trace, s->data), s->guard);
	}
}

static void linked(struct trace *trace, const IRStmt *st)
{
	UShort value = 0;

	if (st->Ist.LLSC.storedata)
		store(trace, st->Ist.LLSC.addr,
		      trace_value_of(trace, st->Ist.LLSC.storedata), NULL);
	else
		value = load(trace, st->Ist.LLSC.addr, NULL);
	trace->values[st->Ist.LLSC.result] = value;
}

void trace_statement(struct trace *trace, const IRStmt *st)
{
	struct operation *op;

	switch (st->tag) {
	case Ist_IMark:
		op = trace_add(trace, OP_INSTRUCTION);
		op->to = (UShort)st->Ist.IMark.addr;
		op->a = (UShort)(st->Ist.IMark.addr >> 16);
		op->b = (UShort)(st->Ist.IMark.addr >> 32);
		trace->instruction++;
		break;
	case Ist_WrTmp:
		trace->values[st->Ist.WrTmp.tmp] =
			expression(trace, st->Ist.WrTmp.data);
		break;
	case Ist_Put: trace_put(trace, st->Ist.Put.offset, st->Ist.Put.data); break;
	case Ist_Store:
		store(trace, st->Ist.Store.addr,
		      trace_value_of(trace, st->Ist.Store.data), NULL);
		break;
	case Ist_LoadG:
	case Ist_StoreG: conditional(trace, st); break;
	case Ist_CAS: compare_and_swap(trace, st->Ist.CAS.details); break;
	case Ist_LLSC: linked(trace, st); break;
	case Ist_Dirty: dirty(trace, st->Ist.Dirty.details); break;
	case Ist_MBE: fence(trace); break;
	case Ist_Exit: exit_statement(trace, st); break;
	default: break;
	}
}

void trace_end(struct trace *trace, const IRExpr *next, IRJumpKind kind)
{
	Bool computed = next->tag == Iex_RdTmp && kind != Ijk_Ret;

	note_departure(trace, False, computed ? next : NULL);
	notes_end(trace);
	VG_(free)(trace->values);
	VG_(free)(trace->known);
}
