/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "notes.h"
#include "trace.h"
#include "windows.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* Where notes are in a thread's state, and for how many values they have room. */
static Int notes_offset;
static UInt notes_room;

struct notes *notes_of(void *guest_state)
{
	return (struct notes *)((UChar *)guest_state + notes_offset);
}

static void put(struct trace *trace, SizeT field, IRExpr *value)
{
	addStmtToIRSB(trace->out,
		      IRStmt_Put(notes_offset + (Int)field, value));
}

/* While a window is open, tell the model of the block before this one. */
static void add_call(struct block *block)
{
	IRExpr *next = block_load(block,
				  word((ULong)(Addr)&tlbsim_next_window));
	IRDirty *call = unsafeIRDirty_0_N(
		0, "tlbsim_window_block",
		VG_(fnptr_to_fnentry)(tlbsim_window_block),
		mkIRExprVec_2(IRExpr_GSPTR(), word(block->start)));

	call->guard = block_assign(
		block, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, next, block->clock));
	call->nFxState = 1;
	VG_(memset)(&call->fxState, 0, sizeof(call->fxState));
	call->fxState[0].fx = Ifx_Modify;
	call->fxState[0].offset = (UShort)notes_offset;
	call->fxState[0].size = (UShort)(2 * block->layout->total_sizeB);
	addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

void notes_start(struct trace *trace)
{
	const Int size = trace->block->layout->total_sizeB;
	const SizeT temporaries = (SizeT)trace->out->tyenv->types_used + 1;

	/* Two shadows of the guest state follow it. */
	notes_offset = size;
	notes_room = (UInt)((2 * (SizeT)size - sizeof(struct notes)) /
			    sizeof(ULong));
	trace->notes = VG_(calloc)("tlbsim.notes", 1, sizeof(*trace->notes));
	trace->noted = VG_(malloc)("tlbsim.noted",
				   temporaries * sizeof(*trace->noted));
	VG_(memset)(trace->noted, 0xff, temporaries * sizeof(*trace->noted));
	add_call(trace->block);
}

/* Note a value; its number, or NOTE_ABSOLUTE if there are too many. */
static UShort note_value(struct trace *trace, IRExpr *value)
{
	if (trace->noted_count == notes_room)
		return NOTE_ABSOLUTE;
	put(trace,
	    offsetof(struct notes, values) + trace->noted_count * sizeof(ULong),
	    value);
	return (UShort)trace->noted_count++;
}

/* The same of a temporary that may have been noted. */
static UShort note_temporary(struct trace *trace, IRTemp temporary)
{
	UShort *slot = &trace->noted[temporary];

	if (*slot == NOTE_ABSOLUTE)
		*slot = note_value(trace, IRExpr_RdTmp(temporary));
	return *slot;
}

static UShort note_guarded(struct trace *trace, const IRExpr *address,
			   IRExpr *guard)
{
	IRExpr *made = IRExpr_ITE(guard, deepCopyIRExpr(address), word(0));

	return note_value(trace, block_assign(trace->block, Ity_I64, made));
}

static Int add_reference(struct noted_block *notes,
			 struct noted_reference reference)
{
	if (notes->count == notes->capacity) {
		notes->capacity = notes->capacity ? 2 * notes->capacity : 8;
		notes->references = VG_(realloc)(
			"tlbsim.references", notes->references,
			notes->capacity * sizeof(*notes->references));
	}
	notes->references[notes->count] = reference;
	return (Int)notes->count++;
}

Int note_reference(struct trace *trace, const IRExpr *address, IRExpr *guard)
{
	struct noted_reference reference = { 0, NOTE_ABSOLUTE };
	IRTemp temporary;

	if (trace->notes->count == PROGRAM_REFERENCES)
		return -1;
	if (guard) {
		reference.base = note_guarded(trace, address, guard);
	} else if (address->tag == Iex_Const) {
		reference.offset = (Long)address->Iex.Const.con->Ico.U64;
		return add_reference(trace->notes, reference);
	} else {
		temporary = address->Iex.RdTmp.tmp;
		reference.offset = trace->block->address[temporary].offset;
		reference.base = note_temporary(
			trace, trace->block->address[temporary].base);
	}
	if (reference.base == NOTE_ABSOLUTE)
		return -1;
	return add_reference(trace->notes, reference);
}

void note_departure(struct trace *trace, Bool taken, const IRExpr *target)
{
	/* It lives as long as the translation may, as the block's notes do. */
	struct noted_departure *left =
		VG_(malloc)("tlbsim.departure", sizeof(*left));

	left->block = trace->notes;
	left->departure = (struct departure){
		.operations = trace->program->count,
		.branches = trace->branches,
		.taken = taken,
		.indirect = target != NULL,
		.target_value = target ? trace_value_of(trace, target) : 0,
	};
	put(trace, offsetof(struct notes, left), word((ULong)(Addr)left));
}

void notes_end(struct trace *trace)
{
	trace->notes->program = trace->program;
	VG_(free)(trace->noted);
}
