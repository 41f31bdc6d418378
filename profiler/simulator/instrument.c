/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is added to the program's code, statement by statement: the inline
 * filter of profiler/tlb/filter.h.
 */
#include "block.h"
#include "placing.h"
#include "trace.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_libcassert.h"

/* Note what a temporary is as base + offset. */
static void note_address(struct block *block, IRTemp temporary,
			 const IRExpr *data)
{
	const IRExpr *base, *offset;
	Long sign;

	block->address[temporary].base = temporary;
	block->address[temporary].offset = 0;
	if (data->tag != Iex_Binop || (data->Iex.Binop.op != Iop_Add64 &&
				       data->Iex.Binop.op != Iop_Sub64))
		return;
	base = data->Iex.Binop.arg1;
	offset = data->Iex.Binop.arg2;
	if (base->tag != Iex_RdTmp || offset->tag != Iex_Const)
		return;
	sign = data->Iex.Binop.op == Iop_Add64 ? 1 : -1;
	block->address[temporary].base =
		block->address[base->Iex.RdTmp.tmp].base;
	block->address[temporary].offset =
		block->address[base->Iex.RdTmp.tmp].offset +
		sign * (Long)offset->Iex.Const.con->Ico.U64;
}

static void add_dirty(struct block *block, const IRDirty *dirty)
{
	/* State of the FPU and the like: at most a few hundred bytes. */
	Int size = dirty->mSize;

	if (dirty->mFx == Ifx_None)
		return;
	if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
		run_add(block, dirty->mAddr, size, TLB_LOAD);
	if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
		run_add(block, dirty->mAddr, size, TLB_STORE);
}

static void add_statement_references(struct block *block, const IRStmt *st)
{
	IRTypeEnv *types = block->out->tyenv;
	IRType type, loaded;
	Int size;

	switch (st->tag) {
	case Ist_WrTmp:
		note_address(block, st->Ist.WrTmp.tmp, st->Ist.WrTmp.data);
		if (st->Ist.WrTmp.data->tag == Iex_Load)
			run_add(block, st->Ist.WrTmp.data->Iex.Load.addr,
				sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty),
				TLB_LOAD);
		break;
	case Ist_Store:
		type = typeOfIRExpr(types, st->Ist.Store.data);
		run_add(block, st->Ist.Store.addr, sizeofIRType(type),
			TLB_STORE);
		break;
	case Ist_LoadG:
		typeOfIRLoadGOp(st->Ist.LoadG.details->cvt, &type, &loaded);
		note_address(block, st->Ist.LoadG.details->dst,
			     IRExpr_RdTmp(st->Ist.LoadG.details->dst));
		run_add_guarded(block, st->Ist.LoadG.details->addr,
				sizeofIRType(loaded), TLB_LOAD,
				st->Ist.LoadG.details->guard);
		break;
	case Ist_StoreG:
		type = typeOfIRExpr(types, st->Ist.StoreG.details->data);
		run_add_guarded(block, st->Ist.StoreG.details->addr,
				sizeofIRType(type), TLB_STORE,
				st->Ist.StoreG.details->guard);
		break;
	case Ist_CAS:
		type = typeOfIRExpr(types, st->Ist.CAS.details->dataLo);
		size = sizeofIRType(type);
		if (st->Ist.CAS.details->dataHi)
			size *= 2;
		note_address(block, st->Ist.CAS.details->oldLo,
			     IRExpr_RdTmp(st->Ist.CAS.details->oldLo));
		if (st->Ist.CAS.details->oldHi != IRTemp_INVALID)
			note_address(block, st->Ist.CAS.details->oldHi,
				     IRExpr_RdTmp(st->Ist.CAS.details->oldHi));
		run_add(block, st->Ist.CAS.details->addr, size, TLB_LOAD);
		run_add(block, st->Ist.CAS.details->addr, size, TLB_STORE);
		break;
	case Ist_LLSC:
		note_address(block, st->Ist.LLSC.result,
			     IRExpr_RdTmp(st->Ist.LLSC.result));
		if (st->Ist.LLSC.storedata) {
			type = typeOfIRExpr(types, st->Ist.LLSC.storedata);
			run_add(block, st->Ist.LLSC.addr, sizeofIRType(type),
				TLB_STORE);
		} else {
			type = typeOfIRTemp(types, st->Ist.LLSC.result);
			run_add(block, st->Ist.LLSC.addr, sizeofIRType(type),
				TLB_LOAD);
		}
		break;
	case Ist_Dirty:
		if (st->Ist.Dirty.details->tmp != IRTemp_INVALID)
			note_address(block, st->Ist.Dirty.details->tmp,
				     IRExpr_RdTmp(st->Ist.Dirty.details->tmp));
		add_dirty(block, st->Ist.Dirty.details);
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
static IRConst *advance_clock(struct block *block)
{
	IRConst *total = IRConst_U64(0);

	addStmtToIRSB(block->out,
		      IRStmt_Store(Iend_LE, word((ULong)(Addr)&tlbsim_clock),
				   block_binary(block, Iop_Add64, block->clock,
						IRExpr_Const(total))));
	return total;
}

/* When a thread's sample begins or ends: see placing.h. */
static void add_turn(struct block *block)
{
	IRDirty *call = unsafeIRDirty_0_N(
		0, "tlbsim_turn", VG_(fnptr_to_fnentry)(tlbsim_turn),
		mkIRExprVec_0());
	IRExpr *next = block_load(block, word((ULong)(Addr)&tlbsim_next_turn));

	call->guard = block_assign(block, Ity_I1,
				   IRExpr_Binop(Iop_CmpLE64U, next, block->clock));
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

/* Now that the number of references is known, write it where it is needed. */
static void close_block(struct block *block, IRConst *total)
{
	total->Ico.U64 = block->time;
	for (struct run *run = block->runs; run; run = run->next)
		run->remaining = block->time - run->remaining;
}

IRSB *tlbsim_instrument(VgCallbackClosure *closure, IRSB *in,
			const VexGuestLayout *layout,
			const VexGuestExtents *extents,
			const VexArchInfo *archinfo_host, IRType guest_word,
			IRType host_word)
{
	const Bool timed = tlbsim.windows.period != 0;
	struct block block;
	struct trace trace;
	IRConst *total;

	(void)closure, (void)archinfo_host;
	if (guest_word != Ity_I64 || host_word != Ity_I64)
		VG_(tool_panic)("tlbsim works on 64-bit programs only");
	VG_(memset)(&block, 0, sizeof(block));
	block.out = deepCopyIRSBExceptStmts(in);
	block.address = VG_(malloc)("tlbsim.address",
				    sizeof(*block.address) *
					    (SizeT)(in->tyenv->types_used + 1));
	block.layout = layout;
	block.start = block.instruction = extents->base[0];
	fetch_start(&block, extents->base[0]);
	block.clock = block_load(&block, word((ULong)(Addr)&tlbsim_clock));
	if (timed)
		trace_start(&trace, &block);
	total = advance_clock(&block);
	if (tlbsim.placing.period)
		add_turn(&block);
	for (Int i = 0; i < in->stmts_used; i++) {
		IRStmt *st = in->stmts[i];

		if (!st || st->tag == Ist_NoOp)
			continue;
		if (st->tag == Ist_IMark) {
			block.instruction = st->Ist.IMark.addr;
			fetch_instruction(&block, st);
		}
		if (st->tag == Ist_Exit)
			fetch_exit(&block, st);
		if (timed)
			trace_statement(&trace, st);
		add_statement_references(&block, st);
		addStmtToIRSB(block.out, st);
	}
	block.stack_delta = stack_delta(in->jumpkind);
	fetch_next(&block, in->next);
	if (timed)
		trace_end(&trace, in->next, in->jumpkind);
	close_block(&block, total);
	VG_(free)(block.address);
	return block.out;
}
