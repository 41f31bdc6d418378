/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fetches.h"
#include "current.h"
#include "options.h"
#include "references.h"
#include "runs.h"

#include "pub_tool_machine.h"

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

void fetch_start(struct emitter *emitter, ULong address)
{
	/* The jump that led here has noted it. */
	emitter->code_page = page_of(address);
}

void fetch_instruction(struct emitter *emitter, const IRStmt *mark)
{
	ULong start = mark->Ist.IMark.addr;
	ULong end = start + (mark->Ist.IMark.len ? mark->Ist.IMark.len : 1) - 1;

	if (page_of(start) != emitter->code_page)
		add_fetch(emitter, emit_word(start), NULL);
	if (page_of(end) != page_of(start))
		add_fetch(emitter, emit_word(end), NULL);
	emitter->code_page = page_of(end);
}

void fetch_exit(struct emitter *emitter, const IRStmt *st)
{
	ULong target = st->Ist.Exit.dst->Ico.U64;

	run_end(emitter);
	if (page_of(target) != emitter->code_page)
		add_fetch(emitter, emit_word(target), st->Ist.Exit.guard);
}

void fetch_next(struct emitter *emitter, const IRExpr *next)
{
	run_end(emitter);
	if (next->tag != Iex_Const)
		add_fetch(emitter, IRExpr_RdTmp(next->Iex.RdTmp.tmp), NULL);
	else if (page_of(next->Iex.Const.con->Ico.U64) != emitter->code_page)
		add_fetch(emitter, emit_word(next->Iex.Const.con->Ico.U64), NULL);
}
