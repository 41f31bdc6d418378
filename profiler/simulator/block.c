/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Expressions that instrumented code is made of, and the look-up in a filter. */
#include "block.h"

#include "pub_tool_libcassert.h"

IRExpr *word(ULong value)
{
	return IRExpr_Const(IRConst_U64(value));
}

IRExpr *block_assign(struct block *block, IRType type, IRExpr *expression)
{
	IRTemp temporary = newIRTemp(block->out->tyenv, type);

	addStmtToIRSB(block->out, IRStmt_WrTmp(temporary, expression));
	return IRExpr_RdTmp(temporary);
}

IRExpr *block_binary(struct block *block, IROp op, IRExpr *a, IRExpr *b)
{
	return block_assign(block, Ity_I64, IRExpr_Binop(op, a, b));
}

IRExpr *block_load(struct block *block, IRExpr *address)
{
	return block_assign(block, Ity_I64,
			    IRExpr_Load(Iend_LE, Ity_I64, address));
}

IRExpr *filter_field(struct block *block, const struct tlb_filter *filter,
		     IRExpr *slot, SizeT field)
{
	ULong start = (ULong)(Addr)filter + field;

	if (slot->tag == Iex_Const)
		return word(slot->Iex.Const.con->Ico.U64 + start);
	return block_binary(block, Iop_Add64, slot, word(start));
}

IRExpr *filter_slot(struct block *block, IRExpr *address)
{
	const UInt shift = tlbsim.config.page_shift[TLB_BASE];
	/* A slot is 16 bytes: index and scale it with one shift and one mask. */
	const UInt scale = 4;
	const ULong mask = (ULong)(TLB_FILTER_SLOTS - 1) << scale;

	tl_assert(sizeof(struct tlb_filter_slot) == 1u << scale);
	if (address->tag == Iex_Const)
		return word(
			(address->Iex.Const.con->Ico.U64 >> (shift - scale)) &
			mask);
	address =
		block_binary(block, Iop_Shr64, address,
			     IRExpr_Const(IRConst_U8((UChar)(shift - scale))));
	return block_binary(block, Iop_And64, address, word(mask));
}

IRExpr *filter_distance(struct block *block, const struct tlb_filter *filter,
			IRExpr *address, IRExpr *slot)
{
	return block_binary(
		block, Iop_Sub64, address,
		block_load(block, filter_field(block, filter, slot,
					       offsetof(struct tlb_filter_slot,
							address))));
}

IRExpr *block_not_below(struct block *block, IRExpr *value, ULong limit)
{
	IRExpr *below = block_assign(
		block, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, value, word(limit)));

	return block_assign(block, Ity_I1, IRExpr_Unop(Iop_Not1, below));
}

IRExpr *block_time(struct block *block, UInt index)
{
	return index ? block_binary(block, Iop_Add64, block->clock, word(index))
		     : block->clock;
}
