/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace.h"

#include "latencies.h"
#include "windows.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* How a value was made, as far as addresses are concerned. */
struct trace_value {
	UInt instruction;	/* in which an arithmetic cycle was charged; 0: none */
	UInt operation;		/* that has it */
};

static IRExpr *word(ULong value)
{
	return IRExpr_Const(IRConst_U64(value));
}

static IRExpr *assign(struct trace *trace, IRType type, IRExpr *expression)
{
	IRTemp temporary = newIRTemp(trace->out->tyenv, type);

	addStmtToIRSB(trace->out, IRStmt_WrTmp(temporary, expression));
	return IRExpr_RdTmp(temporary);
}

static struct operation *add(struct trace *trace, enum operation_kind kind)
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

/* A new value's number; the last one serves for all beyond. */
static UShort new_value(struct trace *trace)
{
	if (trace->value_count < PROGRAM_VALUES - 1)
		trace->value_count++;
	trace->known[trace->value_count] = (struct trace_value){ 0, 0 };
	return trace->value_count;
}

static UShort value_of(const struct trace *trace, const IRExpr *atom)
{
	return atom->tag == Iex_RdTmp ? trace->values[atom->Iex.RdTmp.tmp] : 0;
}

static UShort join(struct trace *trace, UShort a, UShort b, UInt cycles)
{
	UShort to = new_value(trace);
	struct operation *op = add(trace, OP_JOIN);

	op->to = to;
	op->a = a;
	op->b = b;
	op->cycles = (UChar)cycles;
	return to;
}

/*
 * The result of integer arithmetic.  An instruction's is one cycle, however
 * many operations the translation made of it.
 */
static UShort arithmetic(struct trace *trace, UShort a, UShort b)
{
	UShort paid = trace->known[b].instruction == trace->instruction ? b : a;
	struct trace_value known = trace->known[paid];
	UShort to;

	if (paid && known.instruction == trace->instruction) {
		to = join(trace, a, b, 0);
		trace->known[to] = known;
	} else {
		to = join(trace, a, b, 1);
		trace->known[to] = (struct trace_value){
			trace->instruction, trace->program->count - 1
		};
	}
	return to;
}

/* An address that the instruction itself makes costs no cycle of its own. */
static UShort address_of(struct trace *trace, const IRExpr *address)
{
	UShort value = value_of(trace, address);
	const struct trace_value *known = &trace->known[value];

	if (value && known->instruction == trace->instruction)
		trace->program->operations[known->operation].cycles = 0;
	return value;
}

/* Note the address of a reference; returns its number, or -1 if there are too many. */
static Int note_reference(struct trace *trace, IRExpr *address, IRExpr *guard)
{
	UInt number = trace->references;
	IRExpr *place;

	if (number == PROGRAM_REFERENCES)
		return -1;
	trace->references++;
	place = word((ULong)(Addr)&tlbsim_addresses[number]);
	if (guard)
		address = assign(trace, Ity_I64,
				 IRExpr_ITE(guard, address, word(0)));
	addStmtToIRSB(trace->out, IRStmt_Store(Iend_LE, place, address));
	return (Int)number;
}

static UShort load(struct trace *trace, IRExpr *address, IRExpr *guard)
{
	UShort from = address_of(trace, address), to;
	Int reference = note_reference(trace, address, guard);
	struct operation *op;

	if (guard)
		from = join(trace, from, value_of(trace, guard), 0);
	if (reference < 0)
		return from;
	to = new_value(trace);
	op = add(trace, OP_LOAD);
	op->to = to;
	op->a = from;
	op->b = (UShort)reference;
	return to;
}

static void store(struct trace *trace, IRExpr *address, UShort data, IRExpr *guard)
{
	UShort from = address_of(trace, address);
	Int reference = note_reference(trace, address, guard);
	struct operation *op;

	if (guard)
		from = join(trace, from, value_of(trace, guard), 0);
	if (reference < 0)
		return;
	op = add(trace, OP_STORE);
	op->to = (UShort)reference;
	op->a = from;
	op->b = data;
}

static UShort fence(struct trace *trace)
{
	UShort to = new_value(trace);

	add(trace, OP_FENCE)->to = to;
	return to;
}

static UShort get(struct trace *trace, Int offset)
{
	UShort to = new_value(trace);
	struct operation *op = add(trace, OP_GET);

	op->to = to;
	op->a = (UShort)((UInt)offset / 8 % CORE_REGISTERS);
	return to;
}

static UShort operation(struct trace *trace, IROp op, UShort a, UShort b)
{
	UInt cycles = latency_of(op);

	if (cycles == LATENCY_NONE)
		return a && b ? join(trace, a, b, 0) : a ? a : b;
	if (cycles == LATENCY_INTEGER)
		return arithmetic(trace, a, b);
	return join(trace, a, b, cycles);
}

static UShort expression(struct trace *trace, const IRExpr *e)
{
	UShort a, b;

	switch (e->tag) {
	case Iex_Get: return get(trace, e->Iex.Get.offset);
	case Iex_RdTmp: return value_of(trace, e);
	case Iex_Load: return load(trace, e->Iex.Load.addr, NULL);
	case Iex_Unop:
		return operation(trace, e->Iex.Unop.op,
				 value_of(trace, e->Iex.Unop.arg), 0);
	case Iex_Binop:
		a = value_of(trace, e->Iex.Binop.arg1);
		b = value_of(trace, e->Iex.Binop.arg2);
		return operation(trace, e->Iex.Binop.op, a, b);
	case Iex_Triop:
		/* The first is the rounding mode, which hardly changes. */
		a = value_of(trace, e->Iex.Triop.details->arg2);
		b = value_of(trace, e->Iex.Triop.details->arg3);
		return operation(trace, e->Iex.Triop.details->op, a, b);
	case Iex_Qop:
		a = value_of(trace, e->Iex.Qop.details->arg2);
		b = value_of(trace, e->Iex.Qop.details->arg3);
		a = join(trace, a, b, 0);
		b = value_of(trace, e->Iex.Qop.details->arg4);
		return operation(trace, e->Iex.Qop.details->op, a, b);
	case Iex_ITE:
		a = value_of(trace, e->Iex.ITE.iftrue);
		b = value_of(trace, e->Iex.ITE.iffalse);
		a = join(trace, a, b, 0);
		return arithmetic(trace, a, value_of(trace, e->Iex.ITE.cond));
	case Iex_CCall:
		/* Conditions, from the flags that an instruction left. */
		a = 0;
		for (IRExpr **argument = e->Iex.CCall.args; *argument; argument++)
			a = join(trace, a, value_of(trace, *argument), 0);
		return arithmetic(trace, a, 0);
	default: return 0;
	}
}

static void put(struct trace *trace, Int offset, const IRExpr *data)
{
	Int bytes = sizeofIRType(typeOfIRExpr(trace->out->tyenv, data));
	struct operation *op;

	if (offset == trace->ip_offset)
		return;
	op = add(trace, OP_PUT);
	op->to = (UShort)((UInt)offset / 8);
	op->a = value_of(trace, data);
	op->b = (UShort)(bytes > 8 ? bytes / 8 : 1);
	if (op->to + op->b > CORE_REGISTERS)
		trace->program->count--;
}

static void compare_and_swap(struct trace *trace, const IRCAS *cas)
{
	UShort old;

	fence(trace);
	old = load(trace, cas->addr, NULL);
	trace->values[cas->oldLo] = old;
	if (cas->oldHi != IRTemp_INVALID)
		trace->values[cas->oldHi] = old;
	store(trace, cas->addr, join(trace, old, value_of(trace, cas->dataLo), 1),
	      NULL);
	fence(trace);
}

/* A call of an emulation: an instruction that is not often used. */
static void dirty(struct trace *trace, const IRDirty *call)
{
	UShort value = 0;

	for (IRExpr **argument = call->args; *argument; argument++)
		if (!is_IRExpr_VECRET_or_GSPTR(*argument))
			value = join(trace, value, value_of(trace, *argument), 0);
	if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
		value = join(trace, value, load(trace, call->mAddr, NULL), 0);
	if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
		store(trace, call->mAddr, value, NULL);
	if (call->tmp != IRTemp_INVALID)
		trace->values[call->tmp] = join(trace, value, 0, LATENCY_CALL);
}

/* Call the model if the window is open and, where there is one, the guard holds. */
static void add_departure(struct trace *trace, Bool taken, IRExpr *guard,
			  IRExpr *indirect)
{
	struct departure *departure =
		VG_(malloc)("tlbsim.departure", sizeof(*departure));
	IRExpr *target = indirect ? indirect : word(0);
	IRDirty *call;

	*departure = (struct departure){
		.operations = trace->program->count,
		.branches = trace->branches,
		.taken = taken,
		.indirect = indirect != NULL,
		.target_value = indirect ? value_of(trace, indirect) : 0,
	};
	call = unsafeIRDirty_0_N(0, "tlbsim_window_block",
				 VG_(fnptr_to_fnentry)(tlbsim_window_block),
				 mkIRExprVec_3(IRExpr_Const(trace->name),
					       word((ULong)(Addr)departure),
					       target));
	call->guard = trace->open;
	if (guard)
		call->guard = assign(trace, Ity_I1,
				     IRExpr_Binop(Iop_And1, guard, trace->open));
	addStmtToIRSB(trace->out, IRStmt_Dirty(call));
}

void trace_start(struct trace *trace, IRSB *out, const VexGuestLayout *layout,
		 IRExpr *clock)
{
	const UInt capacity = 64;
	IRExpr *next;

	VG_(memset)(trace, 0, sizeof(*trace));
	trace->out = out;
	trace->ip_offset = layout->offset_IP;
	trace->program = VG_(malloc)(
		"tlbsim.program",
		sizeof(*trace->program) +
			capacity * sizeof(trace->program->operations[0]));
	trace->program->count = 0;
	trace->program->capacity = capacity;
	trace->name = IRConst_U64(0);
	trace->values = VG_(calloc)("tlbsim.values",
				    (SizeT)out->tyenv->types_used + 1,
				    sizeof(*trace->values));
	trace->known = VG_(calloc)("tlbsim.known", PROGRAM_VALUES,
				   sizeof(*trace->known));
	next = assign(trace, Ity_I64,
		      IRExpr_Load(Iend_LE, Ity_I64,
				  word((ULong)(Addr)&tlbsim_next_window)));
	trace->open = assign(trace, Ity_I1,
			     IRExpr_Binop(Iop_CmpLE64U, next, clock));
}

static void exit_statement(struct trace *trace, const IRStmt *st)
{
	struct operation *op;

	if (st->Ist.Exit.jk != Ijk_Boring || trace->branches == PROGRAM_BRANCHES)
		return;
	op = add(trace, OP_BRANCH);
	op->a = value_of(trace, st->Ist.Exit.guard);
	op->b = (UShort)trace->branches++;
	add_departure(trace, True, st->Ist.Exit.guard, NULL);
}

static void conditional(struct trace *trace, const IRStmt *st)
{
	if (st->tag == Ist_LoadG) {
		const IRLoadG *l = st->Ist.LoadG.details;
		UShort loaded = load(trace, l->addr, l->guard);

		trace->values[l->dst] =
			join(trace, loaded, value_of(trace, l->alt), 0);
	} else {
		const IRStoreG *s = st->Ist.StoreG.details;

		store(trace, s->addr, value_of(trace, s->data), s->guard);
	}
}

static void linked(struct trace *trace, const IRStmt *st)
{
	UShort value = 0;

	if (st->Ist.LLSC.storedata)
		store(trace, st->Ist.LLSC.addr,
		      value_of(trace, st->Ist.LLSC.storedata), NULL);
	else
		value = load(trace, st->Ist.LLSC.addr, NULL);
	trace->values[st->Ist.LLSC.result] = value;
}

void trace_statement(struct trace *trace, const IRStmt *st)
{
	switch (st->tag) {
	case Ist_IMark:
		add(trace, OP_INSTRUCTION);
		trace->instruction++;
		break;
	case Ist_WrTmp:
		trace->values[st->Ist.WrTmp.tmp] =
			expression(trace, st->Ist.WrTmp.data);
		break;
	case Ist_Put: put(trace, st->Ist.Put.offset, st->Ist.Put.data); break;
	case Ist_Store:
		store(trace, st->Ist.Store.addr,
		      value_of(trace, st->Ist.Store.data), NULL);
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

void trace_end(struct trace *trace, IRExpr *next, IRJumpKind kind)
{
	Bool computed = next->tag == Iex_RdTmp && kind != Ijk_Ret;

	add_departure(trace, False, NULL, computed ? next : NULL);
	/* It lives as long as the translation may. */
	trace->name->Ico.U64 = (ULong)(Addr)trace->program;
	VG_(free)(trace->values);
	VG_(free)(trace->known);
}
