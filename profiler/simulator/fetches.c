/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instruction fetches.  They are noted where a block is left, not where one is
 * entered: most jumps stay in their page, and a page that is used again at
 * once keeps its place in the LRU order.
 */
#include "block.h"

#include "pub_tool_machine.h"

static ULong page_of(ULong address)
{
	return address >> tlbsim.config.page_shift[TLB_BASE];
}

/*
 * The code at `address` is about to be executed: after this point, or, with a
 * condition, if the program leaves the block here.
 */
static void add_fetch(struct block *block, IRExpr *address, IRExpr *condition)
{
	const struct tlb_filter *filter = &tlbsim_code_filter;
	IRExpr *time, *slot, *field;
	IRDirty *call;

	run_end(block);
	time = block_time(block, block->time++);
	call = unsafeIRDirty_0_N(0, "tlbsim_fetch",
				 VG_(fnptr_to_fnentry)(tlbsim_fetch),
				 mkIRExprVec_2(address, time));
	if (condition) {
		call->guard = condition;
		addStmtToIRSB(block->out, IRStmt_Dirty(call));
		return;
	}
	slot = filter_slot(block, address);
	if (tlbsim.filter)
		call->guard = block_not_below(
			block, filter_distance(block, filter, address, slot),
			1ULL << tlbsim.config.page_shift[TLB_BASE]);
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
	if (!tlbsim.filter)
		return;
	field = filter_field(block, filter, slot,
			     offsetof(struct tlb_filter_slot, time));
	addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, field, time));
}

void fetch_start(struct block *block, ULong address)
{
	/* Whatever led here has noted it. */
	block->code_page = page_of(address);
}

void fetch_instruction(struct block *block, const IRStmt *mark)
{
	ULong start = mark->Ist.IMark.addr;
	ULong end = start + (mark->Ist.IMark.len ? mark->Ist.IMark.len : 1) - 1;

	if (page_of(start) != block->code_page)
		add_fetch(block, word(start), NULL);
	if (page_of(end) != page_of(start))
		add_fetch(block, word(end), NULL);
	block->code_page = page_of(end);
}

void fetch_exit(struct block *block, const IRStmt *st)
{
	ULong target = st->Ist.Exit.dst->Ico.U64;

	run_end(block);
	if (page_of(target) != block->code_page)
		add_fetch(block, word(target), st->Ist.Exit.guard);
}

void fetch_next(struct block *block, const IRExpr *next)
{
	run_end(block);
	if (next->tag != Iex_Const)
		add_fetch(block, IRExpr_RdTmp(next->Iex.RdTmp.tmp), NULL);
	else if (page_of(next->Iex.Const.con->Ico.U64) != block->code_page)
		add_fetch(block, word(next->Iex.Const.con->Ico.U64), NULL);
}
