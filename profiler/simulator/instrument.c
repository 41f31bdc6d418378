/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instrument.h"

#include "current.h"
#include "dataflow.h"
#include "emit.h"
#include "numa.h"
#include "options.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "references.h"
#include "region.h"
#include "runs.h"

static ULong page_of(ULong address)
{
	return address >> options.tlb.page_shift[TLB_BASE];
}

/*
 * The code at `address` is about to be executed: after this point, or, with a
 * condition, if the program leaves the block here.
 */
static void add_fetch(struct emitter *emitter, IRExpr *address, IRExpr *condition)
{
	const struct tlb_filter *filter = &tlbsim_code_filter;
	IRExpr *time, *slot, *field;
	IRDirty *call;

	run_end(emitter);
	time = emit_time(emitter, emitter->time++);
	call = unsafeIRDirty_0_N(0, "tlbsim_fetch",
				 VG_(fnptr_to_fnentry)(tlbsim_fetch),
				 mkIRExprVec_2(address, time));
	if (condition) {
		call->guard = condition;
		addStmtToIRSB(emitter->out, IRStmt_Dirty(call));
		return;
	}
	slot = filter_slot(emitter, address);
	if (options.filter)
		call->guard = emit_not_below(
			emitter, filter_distance(emitter, filter, address, slot),
			1ULL << options.tlb.page_shift[TLB_BASE]);
	addStmtToIRSB(emitter->out, IRStmt_Dirty(call));
	if (!options.filter)
		return;
	field = filter_field(emitter, filter, slot,
			     offsetof(struct tlb_filter_slot, time));
	addStmtToIRSB(emitter->out, IRStmt_Store(Iend_LE, field, time));
}

/*
 * Where the block starts, and an instruction of it (its IMark).  Fetches are noted at a block's
 * exits, not at its entry: most jumps stay in their page, and a page that is used again immediately
 * keeps its place in the LRU order.
 */
static void fetch_start(struct emitter *emitter, ULong address)
{
	/* The jump that led here has noted it. */
	emitter->code_page = page_of(address);
}

static void fetch_instruction(struct emitter *emitter, const IRStmt *mark)
{
	ULong start = mark->Ist.IMark.addr;
	ULong end = start + (mark->Ist.IMark.len ? mark->Ist.IMark.len : 1) - 1;

	if (page_of(start) != emitter->code_page)
		add_fetch(emitter, emit_word(start), NULL);
	if (page_of(end) != page_of(start))
		add_fetch(emitter, emit_word(end), NULL);
	emitter->code_page = page_of(end);
}

/* Where it may exit, and where it continues; both end the run. */
static void fetch_exit(struct emitter *emitter, const IRStmt *st)
{
	ULong target = st->Ist.Exit.dst->Ico.U64;

	run_end(emitter);
	if (page_of(target) != emitter->code_page)
		add_fetch(emitter, emit_word(target), st->Ist.Exit.guard);
}

static void fetch_next(struct emitter *emitter, const IRExpr *next)
{
	run_end(emitter);
	if (next->tag != Iex_Const)
		add_fetch(emitter, IRExpr_RdTmp(next->Iex.RdTmp.tmp), NULL);
	else if (page_of(next->Iex.Const.con->Ico.U64) != emitter->code_page)
		add_fetch(emitter, emit_word(next->Iex.Const.con->Ico.U64), NULL);
}

/* Note what a temporary is as base + offset. */
static void note_address(struct emitter *emitter, IRTemp temporary,
			 const IRExpr *data)
{
	const IRExpr *base, *offset;
	Long sign;

	emitter->address[temporary].base = temporary;
	emitter->address[temporary].offset = 0;
	if (data->tag != Iex_Binop || (data->Iex.Binop.op != Iop_Add64 &&
				       data->Iex.Binop.op != Iop_Sub64))
		return;
	base = data->Iex.Binop.arg1;
	offset = data->Iex.Binop.arg2;
	if (base->tag != Iex_RdTmp || offset->tag != Iex_Const)
		return;
	sign = data->Iex.Binop.op == Iop_Add64 ? 1 : -1;
	emitter->address[temporary].base =
		emitter->address[base->Iex.RdTmp.tmp].base;
	emitter->address[temporary].offset =
		emitter->address[base->Iex.RdTmp.tmp].offset +
		sign * (Long)offset->Iex.Const.con->Ico.U64;
}

static void add_dirty(struct emitter *emitter, const IRDirty *dirty)
{
	/* State of the FPU and the like: at most a few hundred bytes. */
	Int size = dirty->mSize;

	if (dirty->mFx == Ifx_None)
		return;
	if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
		run_add(emitter, dirty->mAddr, size, TLB_LOAD);
	if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
		run_add(emitter, dirty->mAddr, size, TLB_STORE);
}

/* A temporary that is not base + offset of another one. */
static void note_opaque(struct emitter *emitter, IRTemp temporary)
{
	if (temporary != IRTemp_INVALID)
		note_address(emitter, temporary, IRExpr_RdTmp(temporary));
}

static Int size_of(const struct emitter *emitter, const IRExpr *data)
{
	return sizeofIRType(typeOfIRExpr(emitter->out->tyenv, data));
}

static void add_guarded_load(struct emitter *emitter, const IRLoadG *load)
{
	IRType type, loaded;

	typeOfIRLoadGOp(load->cvt, &type, &loaded);
	note_opaque(emitter, load->dst);
	run_add_guarded(emitter, load->addr, sizeofIRType(loaded), TLB_LOAD,
			load->guard);
}

static void add_compare_and_swap(struct emitter *emitter, const IRCAS *cas)
{
	Int size = size_of(emitter, cas->dataLo);

	if (cas->dataHi)
		size *= 2;
	note_opaque(emitter, cas->oldLo);
	note_opaque(emitter, cas->oldHi);
	run_add(emitter, cas->addr, size, TLB_LOAD);
	run_add(emitter, cas->addr, size, TLB_STORE);
}

static void add_linked(struct emitter *emitter, const IRStmt *st)
{
	IRExpr *stored = st->Ist.LLSC.storedata;
	IRTypeEnv *types = emitter->out->tyenv;
	IRType type = stored ? typeOfIRExpr(types, stored) :
			       typeOfIRTemp(types, st->Ist.LLSC.result);

	note_opaque(emitter, st->Ist.LLSC.result);
	run_add(emitter, st->Ist.LLSC.addr, sizeofIRType(type),
		stored ? TLB_STORE : TLB_LOAD);
}

static void add_statement_references(struct emitter *emitter, const IRStmt *st)
{
	const IRExpr *data;
	const IRStoreG *store;

	switch (st->tag) {
	case Ist_WrTmp:
		data = st->Ist.WrTmp.data;
		note_address(emitter, st->Ist.WrTmp.tmp, data);
		if (data->tag == Iex_Load)
			run_add(emitter, data->Iex.Load.addr,
				sizeofIRType(data->Iex.Load.ty), TLB_LOAD);
		break;
	case Ist_Store:
		run_add(emitter, st->Ist.Store.addr,
			size_of(emitter, st->Ist.Store.data), TLB_STORE);
		break;
	case Ist_LoadG: add_guarded_load(emitter, st->Ist.LoadG.details); break;
	case Ist_StoreG:
		store = st->Ist.StoreG.details;
		run_add_guarded(emitter, store->addr,
				size_of(emitter, store->data), TLB_STORE,
				store->guard);
		break;
	case Ist_CAS: add_compare_and_swap(emitter, st->Ist.CAS.details); break;
	case Ist_LLSC: add_linked(emitter, st); break;
	case Ist_Dirty:
		note_opaque(emitter, st->Ist.Dirty.details->tmp);
		add_dirty(emitter, st->Ist.Dirty.details);
		break;
	default: break;
	}
}

/* x86 calls and returns move the stack pointer before control leaves the block. */
static Int stack_delta(IRJumpKind kind)
{
#if defined(VGA_amd64)
	if (kind == Ijk_Call)
		return sizeof(ULong);
	if (kind == Ijk_Ret)
		return -(Int)sizeof(ULong);
#endif
	(void)kind;
	return 0;
}

/* Advance the clock by the block's references; returns how many, to be set. */
static IRConst *advance_clock(struct emitter *emitter)
{
	IRConst *total = IRConst_U64(0);

	addStmtToIRSB(emitter->out,
		      IRStmt_Store(Iend_LE, emit_word((ULong)(Addr)&tlbsim_clock),
				   emit_binary(emitter, Iop_Add64, emitter->clock,
						IRExpr_Const(total))));
	return total;
}

/* When a thread's sample begins or ends: see numa.h. */
static void add_turn(struct emitter *emitter)
{
	IRDirty *call = unsafeIRDirty_0_N(
		0, "tlbsim_numa_turn", VG_(fnptr_to_fnentry)(tlbsim_numa_turn),
		mkIRExprVec_0());
	IRExpr *next = emit_load(emitter, emit_word((ULong)(Addr)&tlbsim_numa_next_turn));

	call->guard = emit_assign(emitter, Ity_I1,
				   IRExpr_Binop(Iop_CmpLE64U, next, emitter->clock));
	addStmtToIRSB(emitter->out, IRStmt_Dirty(call));
}

/* Now that the number of references is known, write it where it is needed. */
static void close_block(struct emitter *emitter, IRConst *total)
{
	total->Ico.U64 = emitter->time;
	for (struct run *run = emitter->runs; run; run = run->next)
		run->remaining = emitter->time - run->remaining;
}

IRSB *tlbsim_instrument(VgCallbackClosure *closure, IRSB *in,
			const VexGuestLayout *layout,
			const VexGuestExtents *extents,
			const VexArchInfo *archinfo_host, IRType guest_word,
			IRType host_word)
{
	const Bool timed = options.windows.period != 0;
	struct emitter emitter;
	struct dataflow flow;
	IRConst *total;
	IRSB *turn;

	(void)closure, (void)archinfo_host;
	if (guest_word != Ity_I64 || host_word != Ity_I64)
		VG_(tool_panic)("tlbsim works on 64-bit programs only");
	turn = region_turn(in);
	if (turn || !region_inside())
		return turn ? turn : in;
	VG_(memset)(&emitter, 0, sizeof(emitter));
	emitter.out = deepCopyIRSBExceptStmts(in);
	emitter.address = VG_(malloc)("tlbsim.address",
				    sizeof(*emitter.address) *
					    (SizeT)(in->tyenv->types_used + 1));
	emitter.layout = layout;
	emitter.start = emitter.instruction = extents->base[0];
	fetch_start(&emitter, extents->base[0]);
	emitter.clock = emit_load(&emitter, emit_word((ULong)(Addr)&tlbsim_clock));
	if (timed)
		dataflow_start(&flow, &emitter);
	total = advance_clock(&emitter);
	if (options.numa.period)
		add_turn(&emitter);
	for (Int i = 0; i < in->stmts_used; i++) {
		IRStmt *st = in->stmts[i];

		if (!st || st->tag == Ist_NoOp)
			continue;
		if (st->tag == Ist_IMark) {
			emitter.instruction = st->Ist.IMark.addr;
			fetch_instruction(&emitter, st);
		}
		if (st->tag == Ist_Exit)
			fetch_exit(&emitter, st);
		if (timed)
			dataflow_statement(&flow, st);
		add_statement_references(&emitter, st);
		addStmtToIRSB(emitter.out, st);
	}
	emitter.stack_delta = stack_delta(in->jumpkind);
	fetch_next(&emitter, in->next);
	if (timed)
		dataflow_end(&flow, in->next, in->jumpkind);
	close_block(&emitter, total);
	VG_(free)(emitter.address);
	return emitter.out;
}
