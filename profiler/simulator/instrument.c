/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is added to the program's code: the inline filter (profiler/tlb/first.h).
 *
 * References are gathered into runs.  A run ends where control may leave the
 * block, so that it is executed whole or not at all.  At its end the code
 * tests whether every reference lies in a page of the filter; if one does not,
 * it calls the model with all of them, in order.  Then it writes the time of
 * last use of each range to the filter.
 *
 * References that differ from one base by constants (fields of a structure,
 * a stack frame) form a range of bytes and are tested together.
 */
#include "tlbsim.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_machine.h"

/* A longer range would often cross a page and call the model in vain. */
#define RANGE_BYTES 256

/* A range being gathered. */
struct open_range {
	IRTemp base;		/* IRTemp_INVALID: absolute */
	Long low, high;		/* offsets: first byte, and past the last */
	UInt last;		/* index in the run of its last reference */
	IRExpr *slot;		/* where its filter slot is: bytes from the table */
};

struct block {
	IRSB *out;
	/* Of each temporary: base + offset, if it is that. */
	struct { IRTemp base; Long offset; } *address;
	IRExpr *clock;		/* time at the block's start */
	UInt time;		/* references so far */
	ULong code_page;	/* that the last instruction was in */
	/* Runs made so far: their distance from the end is not known yet. */
	struct run *runs[200];
	UInt run_count;
	/* The run being gathered. */
	struct reference references[RUN_REFERENCES];
	UInt count;
	struct open_range ranges[RUN_BASES];
	UInt range_count;
};

static IRExpr *word(ULong value)
{
	return IRExpr_Const(IRConst_U64(value));
}

/* A new temporary that holds the expression. */
static IRExpr *assign(struct block *block, IRType type, IRExpr *expression)
{
	IRTemp temporary = newIRTemp(block->out->tyenv, type);

	addStmtToIRSB(block->out, IRStmt_WrTmp(temporary, expression));
	return IRExpr_RdTmp(temporary);
}

static IRExpr *binary(struct block *block, IROp op, IRExpr *a, IRExpr *b)
{
	return assign(block, Ity_I64, IRExpr_Binop(op, a, b));
}

static IRExpr *load(struct block *block, IRExpr *address)
{
	return assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, address));
}

/* The address of a field of the filter slot at `slot` bytes from its start. */
static IRExpr *slot_field(struct block *block, const struct tlb_filter *filter,
			  IRExpr *slot, SizeT field)
{
	ULong start = (ULong)(Addr)filter + field;

	if (slot->tag == Iex_Const)
		return word(slot->Iex.Const.con->Ico.U64 + start);
	return binary(block, Iop_Add64, slot, word(start));
}

/* Where in a filter the slot of an address is, in bytes from its start. */
static IRExpr *slot_of(struct block *block, IRExpr *address)
{
	const UInt shift = tlbsim.config.page_shift[TLB_BASE];
	/* A slot is 16 bytes: index and scale it with one shift and one mask. */
	const UInt scale = 4;
	const ULong mask = (ULong)(TLB_FILTER_SLOTS - 1) << scale;

	tl_assert(sizeof(struct tlb_filter_slot) == 1u << scale);
	if (address->tag == Iex_Const)
		return word((address->Iex.Const.con->Ico.U64 >> (shift - scale)) &
			    mask);
	address = binary(block, Iop_Shr64, address,
			 IRExpr_Const(IRConst_U8((UChar)(shift - scale))));
	return binary(block, Iop_And64, address, word(mask));
}

/* How far an address is from the page in its filter slot. */
static IRExpr *distance(struct block *block, const struct tlb_filter *filter,
			IRExpr *address, IRExpr *slot)
{
	return binary(block, Iop_Sub64, address,
		      load(block, slot_field(block, filter, slot,
					     offsetof(struct tlb_filter_slot,
						      address))));
}

/* A condition that holds unless `value` is below `limit`. */
static IRExpr *not_below(struct block *block, IRExpr *value, ULong limit)
{
	IRExpr *below = assign(block, Ity_I1,
			       IRExpr_Binop(Iop_CmpLT64U, value, word(limit)));

	return assign(block, Ity_I1, IRExpr_Unop(Iop_Not1, below));
}

/* How far a range is from the page in its filter slot. */
static IRExpr *range_distance(struct block *block, struct open_range *range)
{
	IRExpr *start = word((ULong)range->low);

	if (range->base != IRTemp_INVALID) {
		start = IRExpr_RdTmp(range->base);
		if (range->low)
			start = binary(block, Iop_Add64, start,
				       word((ULong)range->low));
	}
	range->slot = slot_of(block, start);
	return distance(block, &tlbsim_data_filter, start, range->slot);
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
			first = binary(block, Iop_Or64, first,
				       binary(block, Iop_Add64, first,
					      word(last)));
		far = far ? binary(block, Iop_Or64, far, first) : first;
	}
	return not_below(block, far, limit);
}

/* The time of the block's reference number `index`. */
static IRExpr *time_at(struct block *block, UInt index)
{
	return index ? binary(block, Iop_Add64, block->clock, word(index)) :
		       block->clock;
}

/* Index that the base of a range has among the arguments of the call. */
static UChar argument_index(const struct block *block, UInt range)
{
	UChar index = 0;

	if (block->ranges[range].base == IRTemp_INVALID)
		return REFERENCE_ABSOLUTE;
	for (UInt i = 0; i < range; i++)
		index = (UChar)(index + (block->ranges[i].base != IRTemp_INVALID));
	return index;
}

/* Indices of the open ranges, in the order of their last references. */
static void order_ranges(const struct block *block, UInt order[RUN_BASES])
{
	for (UInt i = 0; i < block->range_count; i++) {
		UInt at = i;

		for (; at && block->ranges[order[at - 1]].last >
				     block->ranges[i].last; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

/* The run's description; it lives as long as the translation may. */
static struct run *describe(struct block *block, const UInt order[RUN_BASES])
{
	struct run *run = VG_(malloc)("tlbsim.run", sizeof(*run) +
				      block->count * sizeof(run->references[0]));

	/* Counted from the block's start for now: see close_block(). */
	run->remaining = block->time;
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
	tl_assert(block->run_count < sizeof(block->runs) / sizeof(block->runs[0]));
	block->runs[block->run_count++] = run;
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

/*
 * End the run: test it, call the model if the test fails, write the times.
 * With a condition, all of that is done only if it holds.
 */
static void flush(struct block *block, IRExpr *condition)
{
	UInt order[RUN_BASES];
	IRDirty *call;

	if (!block->count)
		return;
	order_ranges(block, order);
	call = make_call(block, describe(block, order));
	if (tlbsim.filter)
		call->guard = run_condition(block);
	if (condition)
		call->guard = assign(block, Ity_I1,
				     IRExpr_Binop(Iop_And1, call->guard, condition));
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
	for (UInt i = 0; tlbsim.filter && i < block->range_count; i++) {
		const struct open_range *range = &block->ranges[order[i]];
		IRExpr *address = slot_field(block, &tlbsim_data_filter,
					     range->slot,
					     offsetof(struct tlb_filter_slot, time));
		IRExpr *time = time_at(block, block->time + range->last);

		addStmtToIRSB(block->out, condition ?
			      IRStmt_StoreG(Iend_LE, address, time, condition) :
			      IRStmt_Store(Iend_LE, address, time));
	}
	block->time += block->count;
	block->count = 0;
	block->range_count = 0;
}

/* The range that takes the bytes [low, high) of base; may end the run. */
static UInt range_for(struct block *block, IRTemp base, Long low, Long high)
{
	if (block->count == RUN_REFERENCES)
		flush(block, NULL);
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
		flush(block, NULL);
	block->ranges[block->range_count] = (struct open_range){
		.base = base, .low = low, .high = high,
	};
	return block->range_count++;
}

static void add_reference(struct block *block, const IRExpr *address, Int size,
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
	};
}

/* A reference that is made only if `condition` holds: a run of its own. */
static void add_guarded(struct block *block, const IRExpr *address, Int size,
			enum tlb_side side, IRExpr *condition)
{
	flush(block, NULL);
	add_reference(block, address, size, side);
	flush(block, condition);
}

/* Note what a temporary is as base + offset. */
static void note_address(struct block *block, IRTemp temporary,
			 const IRExpr *data)
{
	const IRExpr *base, *offset;
	Long sign;

	block->address[temporary].base = temporary;
	block->address[temporary].offset = 0;
	if (data->tag != Iex_Binop ||
	    (data->Iex.Binop.op != Iop_Add64 && data->Iex.Binop.op != Iop_Sub64))
		return;
	base = data->Iex.Binop.arg1;
	offset = data->Iex.Binop.arg2;
	if (base->tag != Iex_RdTmp || offset->tag != Iex_Const)
		return;
	sign = data->Iex.Binop.op == Iop_Add64 ? 1 : -1;
	block->address[temporary].base = block->address[base->Iex.RdTmp.tmp].base;
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
		add_reference(block, dirty->mAddr, size, TLB_LOAD);
	if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
		add_reference(block, dirty->mAddr, size, TLB_STORE);
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
			add_reference(block, st->Ist.WrTmp.data->Iex.Load.addr,
				      sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty),
				      TLB_LOAD);
		break;
	case Ist_Store:
		type = typeOfIRExpr(types, st->Ist.Store.data);
		add_reference(block, st->Ist.Store.addr, sizeofIRType(type),
			      TLB_STORE);
		break;
	case Ist_LoadG:
		typeOfIRLoadGOp(st->Ist.LoadG.details->cvt, &type, &loaded);
		note_address(block, st->Ist.LoadG.details->dst,
			     IRExpr_RdTmp(st->Ist.LoadG.details->dst));
		add_guarded(block, st->Ist.LoadG.details->addr,
			    sizeofIRType(loaded), TLB_LOAD,
			    st->Ist.LoadG.details->guard);
		break;
	case Ist_StoreG:
		type = typeOfIRExpr(types, st->Ist.StoreG.details->data);
		add_guarded(block, st->Ist.StoreG.details->addr,
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
		add_reference(block, st->Ist.CAS.details->addr, size, TLB_LOAD);
		add_reference(block, st->Ist.CAS.details->addr, size, TLB_STORE);
		break;
	case Ist_LLSC:
		note_address(block, st->Ist.LLSC.result,
			     IRExpr_RdTmp(st->Ist.LLSC.result));
		if (st->Ist.LLSC.storedata) {
			type = typeOfIRExpr(types, st->Ist.LLSC.storedata);
			add_reference(block, st->Ist.LLSC.addr,
				      sizeofIRType(type), TLB_STORE);
		} else {
			type = typeOfIRTemp(types, st->Ist.LLSC.result);
			add_reference(block, st->Ist.LLSC.addr,
				      sizeofIRType(type), TLB_LOAD);
		}
		break;
	case Ist_Dirty:
		if (st->Ist.Dirty.details->tmp != IRTemp_INVALID)
			note_address(block, st->Ist.Dirty.details->tmp,
				     IRExpr_RdTmp(st->Ist.Dirty.details->tmp));
		add_dirty(block, st->Ist.Dirty.details);
		break;
	default:
		break;
	}
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

	flush(block, NULL);
	time = time_at(block, block->time++);
	call = unsafeIRDirty_0_N(0, "tlbsim_fetch",
				 VG_(fnptr_to_fnentry)(tlbsim_fetch),
				 mkIRExprVec_2(address, time));
	if (condition) {
		call->guard = condition;
		addStmtToIRSB(block->out, IRStmt_Dirty(call));
		return;
	}
	slot = slot_of(block, address);
	if (tlbsim.filter)
		call->guard = not_below(block,
					distance(block, filter, address, slot),
					1ULL << tlbsim.config.page_shift[TLB_BASE]);
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
	if (!tlbsim.filter)
		return;
	field = slot_field(block, filter, slot,
			   offsetof(struct tlb_filter_slot, time));
	addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, field, time));
}

static ULong page_of(ULong address)
{
	return address >> tlbsim.config.page_shift[TLB_BASE];
}

/* The code pages that an instruction is the first of its block in. */
static void add_instruction(struct block *block, const IRStmt *mark)
{
	ULong start = mark->Ist.IMark.addr;
	ULong end = start + (mark->Ist.IMark.len ? mark->Ist.IMark.len : 1) - 1;

	if (page_of(start) != block->code_page)
		add_fetch(block, word(start), NULL);
	if (page_of(end) != page_of(start))
		add_fetch(block, word(end), NULL);
	block->code_page = page_of(end);
}

/*
 * The program may leave the block here.  Fetches are noted where a block is
 * left, not where one is entered: most jumps stay in their page, and a page
 * that is used again at once keeps its place in the LRU order.
 */
static void add_exit(struct block *block, const IRStmt *st)
{
	ULong target = st->Ist.Exit.dst->Ico.U64;

	flush(block, NULL);
	if (page_of(target) != block->code_page)
		add_fetch(block, word(target), st->Ist.Exit.guard);
}

static void add_end(struct block *block, IRExpr *next)
{
	flush(block, NULL);
	if (next->tag != Iex_Const)
		add_fetch(block, next, NULL);
	else if (page_of(next->Iex.Const.con->Ico.U64) != block->code_page)
		add_fetch(block, word(next->Iex.Const.con->Ico.U64), NULL);
}

/* Advance the clock by the block's references; returns how many, to be set. */
static IRConst *start_clock(struct block *block)
{
	IRExpr *address = word((ULong)(Addr)&tlbsim_clock);
	IRConst *total = IRConst_U64(0);

	block->clock = load(block, address);
	addStmtToIRSB(block->out,
		      IRStmt_Store(Iend_LE, address,
				   binary(block, Iop_Add64, block->clock,
					  IRExpr_Const(total))));
	return total;
}

/* Now that the number of references is known, write it where it is needed. */
static void close_block(struct block *block, IRConst *total)
{
	total->Ico.U64 = block->time;
	for (UInt i = 0; i < block->run_count; i++)
		block->runs[i]->remaining = block->time - block->runs[i]->remaining;
}

IRSB *tlbsim_instrument(VgCallbackClosure *closure, IRSB *in,
			const VexGuestLayout *layout,
			const VexGuestExtents *extents,
			const VexArchInfo *archinfo_host, IRType guest_word,
			IRType host_word)
{
	struct block block;
	IRConst *total;

	(void)closure, (void)layout, (void)archinfo_host;
	if (guest_word != Ity_I64 || host_word != Ity_I64)
		VG_(tool_panic)("tlbsim works on 64-bit programs only");
	VG_(memset)(&block, 0, sizeof(block));
	block.out = deepCopyIRSBExceptStmts(in);
	block.address = VG_(malloc)("tlbsim.address", sizeof(*block.address) *
				    (SizeT)(in->tyenv->types_used + 1));
	block.code_page = page_of(extents->base[0]);
	total = start_clock(&block);
	for (Int i = 0; i < in->stmts_used; i++) {
		IRStmt *st = in->stmts[i];

		if (!st || st->tag == Ist_NoOp)
			continue;
		if (st->tag == Ist_IMark)
			add_instruction(&block, st);
		if (st->tag == Ist_Exit)
			add_exit(&block, st);
		add_statement_references(&block, st);
		addStmtToIRSB(block.out, st);
	}
	add_end(&block, in->next);
	close_block(&block, total);
	VG_(free)(block.address);
	return block.out;
}
