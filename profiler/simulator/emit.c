/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "emit.h"
#include "options.h"

#include "pub_tool_libcassert.h"

IRExpr *emit_word(ULong value)
{
	return IRExpr_Const(IRConst_U64(value));
}

IRExpr *emit_assign(struct emitter *emitter, IRType type, IRExpr *expression)
{
	IRTemp temporary = newIRTemp(emitter->out->tyenv, type);

	addStmtToIRSB(emitter->out, IRStmt_WrTmp(temporary, expression));
	return IRExpr_RdTmp(temporary);
}

IRExpr *emit_binary(struct emitter *emitter, IROp op, IRExpr *a, IRExpr *b)
{
	return emit_assign(emitter, Ity_I64, IRExpr_Binop(op, a, b));
}

IRExpr *emit_load(struct emitter *emitter, IRExpr *address)
{
	return emit_assign(emitter, Ity_I64,
			    IRExpr_Load(Iend_LE, Ity_I64, address));
}

IRExpr *filter_field(struct emitter *emitter, const struct tlb_filter *filter,
		     IRExpr *slot, SizeT field)
{
	ULong start = (ULong)(Addr)filter + field;

	if (slot->tag == Iex_Const)
		return emit_word(slot->Iex.Const.con->Ico.U64 + start);
	return emit_binary(emitter, Iop_Add64, slot, emit_word(start));
}

IRExpr *filter_slot(struct emitter *emitter, IRExpr *address)
{
	const UInt shift = options.tlb.page_shift[TLB_BASE];
	/* A slot is 16 bytes: index and scale it with one shift and one mask. */
	const UInt scale = 4;
	const ULong mask = (ULong)(TLB_FILTER_SLOTS - 1) << scale;

	tl_assert(sizeof(struct tlb_filter_slot) == 1u << scale);
	if (address->tag == Iex_Const)
		return emit_word(
			(address->Iex.Const.con->Ico.U64 >> (shift - scale)) &
			mask);
	address =
		emit_binary(emitter, Iop_Shr64, address,
			     IRExpr_Const(IRConst_U8((UChar)(shift - scale))));
	return emit_binary(emitter, Iop_And64, address, emit_word(mask));
}

IRExpr *filter_distance(struct emitter *emitter, const struct tlb_filter *filter,
			IRExpr *address, IRExpr *slot)
{
	return emit_binary(
		emitter, Iop_Sub64, address,
		emit_load(emitter, filter_field(emitter, filter, slot,
					       offsetof(struct tlb_filter_slot,
							address))));
}

IRExpr *emit_not_below(struct emitter *emitter, IRExpr *value, ULong limit)
{
	IRExpr *below = emit_assign(
		emitter, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, value, emit_word(limit)));

	return emit_assign(emitter, Ity_I1, IRExpr_Unop(Iop_Not1, below));
}

IRExpr *emit_time(struct emitter *emitter, UInt index)
{
	return index ? emit_binary(emitter, Iop_Add64, emitter->clock, emit_word(index))
		     : emitter->clock;
}
