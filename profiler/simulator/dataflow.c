/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "dataflow.h"
#include "latencies.h"
#include "notes.h"
#include "windows.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

static UShort load(struct dataflow *flow, IRExpr *address, IRExpr *guard)
{
	UShort from = dataflow_address_of(flow, address), to;
	Int reference = note_reference(flow, address, guard);
	struct operation *op;

	if (guard)
		from = dataflow_join(flow, from, dataflow_value_of(flow, guard), 0);
	if (reference < 0)
		return from;
	to = dataflow_new_value(flow);
	op = dataflow_add(flow, OP_LOAD);
	op->to = to;
	op->a = from;
	op->b = (UShort)reference;
	return to;
}

static void store(struct dataflow *flow, IRExpr *address, UShort data, IRExpr *guard)
{
	UShort from = dataflow_address_of(flow, address);
	Int reference = note_reference(flow, address, guard);
	struct operation *op;

	if (guard)
		from = dataflow_join(flow, from, dataflow_value_of(flow, guard), 0);
	if (reference < 0)
		return;
	op = dataflow_add(flow, OP_STORE);
	op->to = (UShort)reference;
	op->a = from;
	op->b = data;
}

static UShort fence(struct dataflow *flow)
{
	UShort to = dataflow_new_value(flow);

	dataflow_add(flow, OP_FENCE)->to = to;
	return to;
}

static UShort expression(struct dataflow *flow, const IRExpr *e)
{
	UShort a, b;

	switch (e->tag) {
	case Iex_Get: return dataflow_get(flow, e->Iex.Get.offset);
	case Iex_RdTmp: return dataflow_value_of(flow, e);
	case Iex_Load: return load(flow, e->Iex.Load.addr, NULL);
	case Iex_Unop:
		return dataflow_operation(flow, e->Iex.Unop.op,
				 dataflow_value_of(flow, e->Iex.Unop.arg), 0);
	case Iex_Binop:
		a = dataflow_value_of(flow, e->Iex.Binop.arg1);
		b = dataflow_value_of(flow, e->Iex.Binop.arg2);
		return dataflow_operation(flow, e->Iex.Binop.op, a, b);
	case Iex_Triop:
		/* The first is the rounding mode, which hardly changes. */
		a = dataflow_value_of(flow, e->Iex.Triop.details->arg2);
		b = dataflow_value_of(flow, e->Iex.Triop.details->arg3);
		return dataflow_operation(flow, e->Iex.Triop.details->op, a, b);
	case Iex_Qop:
		a = dataflow_value_of(flow, e->Iex.Qop.details->arg2);
		b = dataflow_value_of(flow, e->Iex.Qop.details->arg3);
		a = dataflow_join(flow, a, b, 0);
		b = dataflow_value_of(flow, e->Iex.Qop.details->arg4);
		return dataflow_operation(flow, e->Iex.Qop.details->op, a, b);
	case Iex_ITE:
		a = dataflow_value_of(flow, e->Iex.ITE.iftrue);
		b = dataflow_value_of(flow, e->Iex.ITE.iffalse);
		a = dataflow_join(flow, a, b, 0);
		return dataflow_arithmetic(flow, a, dataflow_value_of(flow, e->Iex.ITE.cond));
	case Iex_CCall:
		/* Conditions, from the flags that an instruction left. */
		a = 0;
		for (IRExpr **argument = e->Iex.CCall.args; *argument; argument++)
			a = dataflow_join(flow, a, dataflow_value_of(flow, *argument), 0);
		return dataflow_arithmetic(flow, a, 0);
	default: return 0;
	}
}

static void compare_and_swap(struct dataflow *flow, const IRCAS *cas)
{
	UShort old;

	fence(flow);
	old = load(flow, cas->addr, NULL);
	flow->values[cas->oldLo] = old;
	if (cas->oldHi != IRTemp_INVALID)
		flow->values[cas->oldHi] = old;
	store(flow, cas->addr, dataflow_join(flow, old, dataflow_value_of(flow, cas->dataLo), 1),
	      NULL);
	fence(flow);
}

/* A call of an emulation: a rare instruction. */
static void dirty(struct dataflow *flow, const IRDirty *call)
{
	UShort value = 0;

	for (IRExpr **argument = call->args; *argument; argument++)
		if (!is_IRExpr_VECRET_or_GSPTR(*argument))
			value = dataflow_join(flow, value, dataflow_value_of(flow, *argument), 0);
	if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
		value = dataflow_join(flow, value, load(flow, call->mAddr, NULL), 0);
	if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
		store(flow, call->mAddr, value, NULL);
	if (call->tmp != IRTemp_INVALID)
		flow->values[call->tmp] = dataflow_join(flow, value, 0, LATENCY_CALL);
}

/* While a window is open, run the previous block on the model. */
static void add_window_call(struct emitter *emitter)
{
	IRExpr *next = emit_load(emitter,
				 emit_word((ULong)(Addr)&tlbsim_next_window));
	IRDirty *call = unsafeIRDirty_0_N(
		0, "tlbsim_window_block",
		VG_(fnptr_to_fnentry)(tlbsim_window_block),
		mkIRExprVec_2(notes_argument(), emit_word(emitter->start)));

	call->guard = emit_assign(
		emitter, Ity_I1,
		IRExpr_Binop(Iop_CmpLE64U, next, emitter->clock));
	notes_modified(call, emitter->layout);
	addStmtToIRSB(emitter->out, IRStmt_Dirty(call));
}

void dataflow_start(struct dataflow *flow, struct emitter *emitter)
{
	const UInt capacity = 64;

	VG_(memset)(flow, 0, sizeof(*flow));
	flow->out = emitter->out;
	flow->emitter = emitter;
	flow->ip_offset = emitter->layout->offset_IP;
	flow->block = VG_(malloc)(
		"tlbsim.block",
		sizeof(*flow->block) +
			capacity * sizeof(flow->block->operations[0]));
	flow->block->count = 0;
	flow->block->capacity = capacity;
	dataflow_values_start(flow);
	notes_start(flow);
	add_window_call(emitter);
}

static void exit_statement(struct dataflow *flow, const IRStmt *st)
{
	Bool branch = st->Ist.Exit.jk == Ijk_Boring &&
		      flow->branches < BLOCK_BRANCHES;

	if (branch) {
		struct operation *op = dataflow_add(flow, OP_BRANCH);

		op->a = dataflow_value_of(flow, st->Ist.Exit.guard);
		op->b = (UShort)flow->branches++;
	}
	note_departure(flow, branch, NULL);
}

static void conditional(struct dataflow *flow, const IRStmt *st)
{
	if (st->tag == Ist_LoadG) {
		const IRLoadG *l = st->Ist.LoadG.details;
		UShort loaded = load(flow, l->addr, l->guard);

		flow->values[l->dst] =
			dataflow_join(flow, loaded, dataflow_value_of(flow, l->alt), 0);
	} else {
		const IRStoreG *s = st->Ist.StoreG.details;

		store(flow, s->addr, dataflow_value_of(flow, s->data), s->guard);
	}
}

static void linked(struct dataflow *flow, const IRStmt *st)
{
	UShort value = 0;

	if (st->Ist.LLSC.storedata)
		store(flow, st->Ist.LLSC.addr,
		      dataflow_value_of(flow, st->Ist.LLSC.storedata), NULL);
	else
		value = load(flow, st->Ist.LLSC.addr, NULL);
	flow->values[st->Ist.LLSC.result] = value;
}

void dataflow_statement(struct dataflow *flow, const IRStmt *st)
{
	struct operation *op;

	switch (st->tag) {
	case Ist_IMark:
		op = dataflow_add(flow, OP_INSTRUCTION);
		op->to = (UShort)st->Ist.IMark.addr;
		op->a = (UShort)(st->Ist.IMark.addr >> 16);
		op->b = (UShort)(st->Ist.IMark.addr >> 32);
		flow->instruction++;
		break;
	case Ist_WrTmp:
		flow->values[st->Ist.WrTmp.tmp] =
			expression(flow, st->Ist.WrTmp.data);
		break;
	case Ist_Put: dataflow_put(flow, st->Ist.Put.offset, st->Ist.Put.data); break;
	case Ist_Store:
		store(flow, st->Ist.Store.addr,
		      dataflow_value_of(flow, st->Ist.Store.data), NULL);
		break;
	case Ist_LoadG:
	case Ist_StoreG: conditional(flow, st); break;
	case Ist_CAS: compare_and_swap(flow, st->Ist.CAS.details); break;
	case Ist_LLSC: linked(flow, st); break;
	case Ist_Dirty: dirty(flow, st->Ist.Dirty.details); break;
	case Ist_MBE: fence(flow); break;
	case Ist_Exit: exit_statement(flow, st); break;
	default: break;
	}
}

void dataflow_end(struct dataflow *flow, const IRExpr *next, IRJumpKind kind)
{
	Bool computed = next->tag == Iex_RdTmp && kind != Ijk_Ret;

	note_departure(flow, False, computed ? next : NULL);
	notes_end(flow);
	dataflow_values_end(flow);
}
