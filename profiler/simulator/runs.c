/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "runs.h"
#include "current.h"
#include "numa.h"
#include "options.h"
#include "references.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* A longer range would often cross a page and call the model needlessly. */
#define RANGE_BYTES 512

/* How far a range is from the page in its filter slot. */
static IRExpr *range_distance(struct emitter *emitter, struct open_range *range)
{
	IRExpr *start = emit_word((ULong)range->low);

	if (range->base != IRTemp_INVALID) {
		start = IRExpr_RdTmp(range->base);
		if (range->low)
			start = emit_binary(emitter, Iop_Add64, start,
					     emit_word((ULong)range->low));
	}
	range->slot = filter_slot(emitter, start);
	return filter_distance(emitter, &tlbsim_data_filter, start, range->slot);
}

/* A condition that is false if every range of the run is in the filter. */
static IRExpr *run_condition(struct emitter *emitter)
{
	const ULong page = 1ULL << options.tlb.page_shift[TLB_BASE];
	IRExpr *far = NULL;
	ULong limit = page;

	for (UInt i = 0; i < emitter->range_count; i++) {
		struct open_range *range = &emitter->ranges[i];
		ULong last = (ULong)(range->high - range->low) - 1;
		IRExpr *first = range_distance(emitter, range);

		if (emitter->range_count == 1) {
			far = first;
			limit = page - last;
			break;
		}
		/* Page sizes are powers of two: both ends are below it just
		   if their bitwise or is. */
		if (last)
			first = emit_binary(emitter, Iop_Or64, first,
					     emit_binary(emitter, Iop_Add64,
							  first, emit_word(last)));
		far = far ? emit_binary(emitter, Iop_Or64, far, first) : first;
	}
	return emit_not_below(emitter, far, limit);
}

/* Index that the base of a range has among the arguments of the call. */
static UChar argument_index(const struct emitter *emitter, UInt range)
{
	UChar index = 0;

	if (emitter->ranges[range].base == IRTemp_INVALID)
		return REFERENCE_ABSOLUTE;
	for (UInt i = 0; i < range; i++)
		index = (UChar)(index +
				(emitter->ranges[i].base != IRTemp_INVALID));
	return index;
}

/* Indices of the open ranges, in the order of their last references. */
static void order_ranges(const struct emitter *emitter, UInt order[RUN_BASES])
{
	for (UInt i = 0; i < emitter->range_count; i++) {
		UInt at = i;

		for (; at && emitter->ranges[order[at - 1]].last >
				     emitter->ranges[i].last;
		     at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

/* The run's description; it lives as long as the translation may. */
static struct run *describe(struct emitter *emitter, const UInt order[RUN_BASES])
{
	struct run *run = VG_(malloc)(
		"tlbsim.run",
		sizeof(*run) + emitter->count * sizeof(run->references[0]));

	/* Counted from the block's start for now: see close_block(). */
	run->remaining = emitter->time;
	run->instruction = emitter->start;
	run->stack_delta = emitter->stack_delta;
	run->range_count = emitter->range_count;
	for (UInt i = 0; i < emitter->range_count; i++)
		run->ranges[i] = (struct range){
			.low = emitter->ranges[order[i]].low,
			.last = (UShort)emitter->ranges[order[i]].last,
			.base = argument_index(emitter, order[i]),
		};
	run->count = emitter->count;
	for (UInt i = 0; i < emitter->count; i++) {
		run->references[i] = emitter->references[i];
		run->references[i].base =
			argument_index(emitter, emitter->references[i].base);
	}
	run->next = emitter->runs;
	emitter->runs = run;
	return run;
}

static IRDirty *make_call(struct emitter *emitter, const struct run *run)
{
	static void *const helpers[RUN_BASES + 1] = {
		tlbsim_run0, tlbsim_run1, tlbsim_run2, tlbsim_run3, tlbsim_run4,
	};
	IRExpr *b[RUN_BASES], *descriptor = emit_word((ULong)(Addr)run), **arguments;
	UInt count = 0;

	for (UInt i = 0; i < emitter->range_count; i++)
		if (emitter->ranges[i].base != IRTemp_INVALID)
			b[count++] = IRExpr_RdTmp(emitter->ranges[i].base);
	switch (count) {
	case 0: arguments = mkIRExprVec_1(descriptor); break;
	case 1: arguments = mkIRExprVec_2(descriptor, b[0]); break;
	case 2: arguments = mkIRExprVec_3(descriptor, b[0], b[1]); break;
	case 3: arguments = mkIRExprVec_4(descriptor, b[0], b[1], b[2]); break;
	default: arguments = mkIRExprVec_5(descriptor, b[0], b[1], b[2], b[3]);
	}
	return unsafeIRDirty_0_N(0, "tlbsim_run",
				 VG_(fnptr_to_fnentry)(helpers[count]),
				 arguments);
}

/* A miss may sample the stack, for which these must be up to date. */
static void show_registers(const struct emitter *emitter, IRDirty *call)
{
	const VexGuestLayout *layout = emitter->layout;
	const Int offsets[] = { layout->offset_SP, layout->offset_FP,
				layout->offset_IP };
	const Int count = sizeof(offsets) / sizeof(offsets[0]);

	call->nFxState = count;
	VG_(memset)(&call->fxState, 0, sizeof(call->fxState));
	for (Int i = 0; i < count; i++) {
		call->fxState[i].fx = Ifx_Read;
		call->fxState[i].offset = (UShort)offsets[i];
		call->fxState[i].size = sizeof(ULong);
	}
}

/* A reference that the NUMA model sees is a call, in the filter or not. */
static IRExpr *or_numa(struct emitter *emitter, IRExpr *guard)
{
	IRExpr *phase = emit_load(emitter, emit_word((ULong)(Addr)&tlbsim_numa_phase));

	return emit_assign(emitter, Ity_I1,
			    IRExpr_Binop(Iop_Or1, guard,
					 emit_not_below(emitter, phase, 1)));
}

/*
 * End the run: test it, call the model if the test fails, write the times.
 * With a condition, all of that is done only if it holds.
 */
static void end_run(struct emitter *emitter, IRExpr *condition)
{
	UInt order[RUN_BASES];
	IRDirty *call;

	if (!emitter->count)
		return;
	order_ranges(emitter, order);
	call = make_call(emitter, describe(emitter, order));
	if (options.attribute)
		show_registers(emitter, call);
	if (options.filter)
		call->guard = run_condition(emitter);
	if (options.filter && options.numa.period)
		call->guard = or_numa(emitter, call->guard);
	if (condition)
		call->guard = emit_assign(
			emitter, Ity_I1,
			IRExpr_Binop(Iop_And1, call->guard, condition));
	addStmtToIRSB(emitter->out, IRStmt_Dirty(call));
	for (UInt i = 0; options.filter && i < emitter->range_count; i++) {
		const struct open_range *range = &emitter->ranges[order[i]];
		IRExpr *address =
			filter_field(emitter, &tlbsim_data_filter, range->slot,
				     offsetof(struct tlb_filter_slot, time));
		IRExpr *time = emit_time(emitter, emitter->time + range->last);

		addStmtToIRSB(emitter->out,
			      condition ? IRStmt_StoreG(Iend_LE, address, time,
							condition)
					: IRStmt_Store(Iend_LE, address, time));
	}
	emitter->time += emitter->count;
	emitter->count = 0;
	emitter->range_count = 0;
}

void run_end(struct emitter *emitter)
{
	end_run(emitter, NULL);
}

/* The range that takes the bytes [low, high) of base; may end the run. */
static UInt range_for(struct emitter *emitter, IRTemp base, Long low, Long high)
{
	if (emitter->count == RUN_REFERENCES)
		run_end(emitter);
	for (UInt i = 0; i < emitter->range_count; i++) {
		struct open_range *range = &emitter->ranges[i];
		Long new_low = low < range->low ? low : range->low;
		Long new_high = high > range->high ? high : range->high;

		if (range->base == base && new_high - new_low <= RANGE_BYTES) {
			range->low = new_low;
			range->high = new_high;
			return i;
		}
	}
	if (emitter->range_count == RUN_BASES)
		run_end(emitter);
	emitter->ranges[emitter->range_count] = (struct open_range){
		.base = base,
		.low = low,
		.high = high,
	};
	return emitter->range_count++;
}

void run_add(struct emitter *emitter, const IRExpr *address, Int size,
	     enum tlb_side side)
{
	IRTemp base = IRTemp_INVALID;
	Long offset;
	UInt range;

	if (address->tag == Iex_Const) {
		offset = (Long)address->Iex.Const.con->Ico.U64;
	} else {
		tl_assert(address->tag == Iex_RdTmp);
		base = emitter->address[address->Iex.RdTmp.tmp].base;
		offset = emitter->address[address->Iex.RdTmp.tmp].offset;
	}
	range = range_for(emitter, base, offset, offset + size);
	emitter->ranges[range].last = emitter->count;
	emitter->references[emitter->count++] = (struct reference){
		.offset = offset,
		.size = (UShort)size,
		.base = (UChar)range,
		.side = (UChar)side,
		.instruction = (Int)(emitter->instruction - emitter->start),
	};
}

void run_add_guarded(struct emitter *emitter, const IRExpr *address, Int size,
		     enum tlb_side side, IRExpr *condition)
{
	run_end(emitter);
	run_add(emitter, address, size, side);
	end_run(emitter, condition);
}
