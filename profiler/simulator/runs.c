/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data references: gathered into runs, and tested against the filter at once.
 *
 * A run ends where control may leave the block, so that it is executed whole
 * or not at all.  At its end the code tests whether every reference lies in a
 * page of the filter; if one does not, it calls the model with all of them, in
 * order.  Then it writes the time of last use of each range to the filter.
 *
 * References that differ from one base by constants (fields of a structure,
 * a stack frame) form a range of bytes and are tested together.
 */
#include "block.h"
#include "placing.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* A longer range would often cross a page and call the model in vain. */
#define RANGE_BYTES 512

/* How far a range is from the page in its filter slot. */
static IRExpr *range_distance(struct block *block, struct open_range *range)
{
	IRExpr *start = word((ULong)range->low);

	if (range->base != IRTemp_INVALID) {
		start = IRExpr_RdTmp(range->base);
		if (range->low)
			start = block_binary(block, Iop_Add64, start,
					     word((ULong)range->low));
	}
	range->slot = filter_slot(block, start);
	return filter_distance(block, &tlbsim_data_filter, start, range->slot);
}

/* A condition that is false if every range of the run is in the filter. */
static IRExpr *run_condition(struct block *block)
{
	const ULong page = 1ULL << tlbsim.config.page_shift[TLB_BASE];
	IRExpr *far = NULL;
	ULong limit = page;

	for (UInt i = 0; i < block->range_count; i++) {
		struct open_range *range = &block->ranges[i];
		ULong last = (ULong)(range->high - range->low) - 1;
		IRExpr *first = range_distance(block, range);

		if (block->range_count == 1) {
			far = first;
			limit = page - last;
			break;
		}
		/* Page sizes are powers of two: both ends are below it just
		   if their bitwise or is. */
		if (last)
			first = block_binary(block, Iop_Or64, first,
					     block_binary(block, Iop_Add64,
							  first, word(last)));
		far = far ? block_binary(block, Iop_Or64, far, first) : first;
	}
	return block_not_below(block, far, limit);
}

/* Index that the base of a range has among the arguments of the call. */
static UChar argument_index(const struct block *block, UInt range)
{
	UChar index = 0;

	if (block->ranges[range].base == IRTemp_INVALID)
		return REFERENCE_ABSOLUTE;
	for (UInt i = 0; i < range; i++)
		index = (UChar)(index +
				(block->ranges[i].base != IRTemp_INVALID));
	return index;
}

/* Indices of the open ranges, in the order of their last references. */
static void order_ranges(const struct block *block, UInt order[RUN_BASES])
{
	for (UInt i = 0; i < block->range_count; i++) {
		UInt at = i;

		for (; at && block->ranges[order[at - 1]].last >
				     block->ranges[i].last;
		     at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

/* The run's description; it lives as long as the translation may. */
static struct run *describe(struct block *block, const UInt order[RUN_BASES])
{
	struct run *run = VG_(malloc)(
		"tlbsim.run",
		sizeof(*run) + block->count * sizeof(run->references[0]));

	/* Counted from the block's start for now: see close_block(). */
	run->remaining = block->time;
	run->instruction = block->start;
	run->stack_delta = block->stack_delta;
	run->range_count = block->range_count;
	for (UInt i = 0; i < block->range_count; i++)
		run->ranges[i] = (struct range){
			.low = block->ranges[order[i]].low,
			.last = (UShort)block->ranges[order[i]].last,
			.base = argument_index(block, order[i]),
		};
	run->count = block->count;
	for (UInt i = 0; i < block->count; i++) {
		run->references[i] = block->references[i];
		run->references[i].base =
			argument_index(block, block->references[i].base);
	}
	run->next = block->runs;
	block->runs = run;
	return run;
}

static IRDirty *make_call(struct block *block, const struct run *run)
{
	static void *const helpers[RUN_BASES + 1] = {
		tlbsim_run0, tlbsim_run1, tlbsim_run2, tlbsim_run3, tlbsim_run4,
	};
	IRExpr *b[RUN_BASES], *descriptor = word((ULong)(Addr)run), **arguments;
	UInt count = 0;

	for (UInt i = 0; i < block->range_count; i++)
		if (block->ranges[i].base != IRTemp_INVALID)
			b[count++] = IRExpr_RdTmp(block->ranges[i].base);
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

/* A miss may look at the stack, for which these must be up to date. */
static void show_registers(const struct block *block, IRDirty *call)
{
	const VexGuestLayout *layout = block->layout;
	const Int offsets[] = { layout->offset_SP, layout->offset_FP,
				layout->offset_IP };

	call->nFxState = 3;
	VG_(memset)(&call->fxState, 0, sizeof(call->fxState));
	for (Int i = 0; i < call->nFxState; i++) {
		call->fxState[i].fx = Ifx_Read;
		call->fxState[i].offset = (UShort)offsets[i];
		call->fxState[i].size = sizeof(ULong);
	}
}

/* A reference that is looked at is a call, whether it is in the filter or not. */
static IRExpr *or_placing(struct block *block, IRExpr *guard)
{
	IRExpr *placing = block_load(block, word((ULong)(Addr)&tlbsim_placing));

	return block_assign(block, Ity_I1,
			    IRExpr_Binop(Iop_Or1, guard,
					 block_not_below(block, placing, 1)));
}

/*
 * End the run: test it, call the model if the test fails, write the times.
 * With a condition, all of that is done only if it holds.
 */
static void end_run(struct block *block, IRExpr *condition)
{
	UInt order[RUN_BASES];
	IRDirty *call;

	if (!block->count)
		return;
	order_ranges(block, order);
	call = make_call(block, describe(block, order));
	if (tlbsim.attribute)
		show_registers(block, call);
	if (tlbsim.filter)
		call->guard = run_condition(block);
	if (tlbsim.filter && tlbsim.placing.period)
		call->guard = or_placing(block, call->guard);
	if (condition)
		call->guard = block_assign(
			block, Ity_I1,
			IRExpr_Binop(Iop_And1, call->guard, condition));
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
	for (UInt i = 0; tlbsim.filter && i < block->range_count; i++) {
		const struct open_range *range = &block->ranges[order[i]];
		IRExpr *address =
			filter_field(block, &tlbsim_data_filter, range->slot,
				     offsetof(struct tlb_filter_slot, time));
		IRExpr *time = block_time(block, block->time + range->last);

		addStmtToIRSB(block->out,
			      condition ? IRStmt_StoreG(Iend_LE, address, time,
							condition)
					: IRStmt_Store(Iend_LE, address, time));
	}
	block->time += block->count;
	block->count = 0;
	block->range_count = 0;
}

void run_end(struct block *block)
{
	end_run(block, NULL);
}

/* The range that takes the bytes [low, high) of base; may end the run. */
static UInt range_for(struct block *block, IRTemp base, Long low, Long high)
{
	if (block->count == RUN_REFERENCES)
		run_end(block);
	for (UInt i = 0; i < block->range_count; i++) {
		struct open_range *range = &block->ranges[i];
		Long new_low = low < range->low ? low : range->low;
		Long new_high = high > range->high ? high : range->high;

		if (range->base == base && new_high - new_low <= RANGE_BYTES) {
			range->low = new_low;
			range->high = new_high;
			return i;
		}
	}
	if (block->range_count == RUN_BASES)
		run_end(block);
	block->ranges[block->range_count] = (struct open_range){
		.base = base,
		.low = low,
		.high = high,
	};
	return block->range_count++;
}

void run_add(struct block *block, const IRExpr *address, Int size,
	     enum tlb_side side)
{
	IRTemp base = IRTemp_INVALID;
	Long offset;
	UInt range;

	if (address->tag == Iex_Const) {
		offset = (Long)address->Iex.Const.con->Ico.U64;
	} else {
		tl_assert(address->tag == Iex_RdTmp);
		base = block->address[address->Iex.RdTmp.tmp].base;
		offset = block->address[address->Iex.RdTmp.tmp].offset;
	}
	range = range_for(block, base, offset, offset + size);
	block->ranges[range].last = block->count;
	block->references[block->count++] = (struct reference){
		.offset = offset,
		.size = (UShort)size,
		.base = (UChar)range,
		.side = (UChar)side,
		.instruction = (Int)(block->instruction - block->start),
	};
}

void run_add_guarded(struct block *block, const IRExpr *address, Int size,
		     enum tlb_side side, IRExpr *condition)
{
	run_end(block);
	run_add(block, address, size, side);
	end_run(block, condition);
}
