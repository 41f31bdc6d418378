/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "notes.h"

#include "pub_tool_guest.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"

struct notes {
	const struct noted_departure *left;	/* NULL: the model knows */
	ULong values[];
};

/* Where notes are in a thread's state, and how many values they can hold. */
static Int notes_offset;
static UInt notes_room;

#if defined(VGA_arm64)
/* VEX hands no call the guest's state there (host_arm64_isel.c asserts): a copy of what it notes. */
IRExpr *notes_argument(void)
{
	return mkIRExpr_HWord(0);
}

const struct noted_departure *notes_take(void *guest_state, const ULong **values)
{
	static ULong copy[2 * sizeof(VexGuestArchState) / sizeof(ULong)];
	const struct noted_departure *none = NULL;
	const ThreadId thread = VG_(get_running_tid)();
	UChar *to = (UChar *)copy;
	struct notes *notes = (struct notes *)copy;

	(void)guest_state;
	VG_(get_shadow_regs_area)(thread, to, 1, 0, sizeof(notes->left));
	if (!notes->left)
		return NULL;
	VG_(get_shadow_regs_area)(thread, to, 1, 0, (SizeT)notes_offset);
	VG_(get_shadow_regs_area)(thread, to + notes_offset, 2, 0, (SizeT)notes_offset);
	VG_(set_shadow_regs_area)(thread, 1, 0, sizeof(none), (const UChar *)&none);
	*values = notes->values;
	return notes->left;
}
#else
IRExpr *notes_argument(void)
{
	return IRExpr_GSPTR();
}

const struct noted_departure *notes_take(void *guest_state, const ULong **values)
{
	struct notes *notes = (struct notes *)((UChar *)guest_state + notes_offset);
	const struct noted_departure *left = notes->left;

	notes->left = NULL;
	*values = notes->values;
	return left;
}
#endif

static void put(struct dataflow *flow, SizeT field, IRExpr *value)
{
	addStmtToIRSB(flow->out,
		      IRStmt_Put(notes_offset + (Int)field, value));
}

void notes_modified(IRDirty *call, const VexGuestLayout *layout)
{
	call->nFxState = 1;
	VG_(memset)(&call->fxState, 0, sizeof(call->fxState));
	call->fxState[0].fx = Ifx_Modify;
	call->fxState[0].offset = (UShort)notes_offset;
	call->fxState[0].size = (UShort)(2 * layout->total_sizeB);
}

void notes_start(struct dataflow *flow)
{
	const Int size = flow->emitter->layout->total_sizeB;
	const SizeT temporaries = (SizeT)flow->out->tyenv->types_used + 1;

	/* Two shadows of the guest state follow it. */
	notes_offset = size;
	notes_room = (UInt)((2 * (SizeT)size - sizeof(struct notes)) /
			    sizeof(ULong));
	flow->notes = VG_(calloc)("tlbsim.notes", 1, sizeof(*flow->notes));
	flow->noted = VG_(malloc)("tlbsim.noted",
				   temporaries * sizeof(*flow->noted));
	VG_(memset)(flow->noted, 0xff, temporaries * sizeof(*flow->noted));
}

/* Note a value; its number, or NOTE_ABSOLUTE if there are too many. */
static UShort note_value(struct dataflow *flow, IRExpr *value)
{
	if (flow->noted_count == notes_room)
		return NOTE_ABSOLUTE;
	put(flow,
	    offsetof(struct notes, values) + flow->noted_count * sizeof(ULong),
	    value);
	return (UShort)flow->noted_count++;
}

/* The same of a temporary that may have been noted. */
static UShort note_temporary(struct dataflow *flow, IRTemp temporary)
{
	UShort *slot = &flow->noted[temporary];

	if (*slot == NOTE_ABSOLUTE)
		*slot = note_value(flow, IRExpr_RdTmp(temporary));
	return *slot;
}

static UShort note_guarded(struct dataflow *flow, const IRExpr *address,
			   IRExpr *guard)
{
	IRExpr *made = IRExpr_ITE(guard, deepCopyIRExpr(address), emit_word(0));

	return note_value(flow, emit_assign(flow->emitter, Ity_I64, made));
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

Int note_reference(struct dataflow *flow, const IRExpr *address, IRExpr *guard)
{
	struct noted_reference reference = { 0, NOTE_ABSOLUTE };
	IRTemp temporary;

	if (flow->notes->count == BLOCK_REFERENCES)
		return -1;
	if (guard) {
		reference.base = note_guarded(flow, address, guard);
	} else if (address->tag == Iex_Const) {
		reference.offset = (Long)address->Iex.Const.con->Ico.U64;
		return add_reference(flow->notes, reference);
	} else {
		temporary = address->Iex.RdTmp.tmp;
		reference.offset = flow->emitter->address[temporary].offset;
		reference.base = note_temporary(
			flow, flow->emitter->address[temporary].base);
	}
	if (reference.base == NOTE_ABSOLUTE)
		return -1;
	return add_reference(flow->notes, reference);
}

void note_departure(struct dataflow *flow, Bool taken, const IRExpr *target)
{
	/* It lives as long as the translation, like the block's notes. */
	struct noted_departure *left =
		VG_(malloc)("tlbsim.departure", sizeof(*left));

	left->notes = flow->notes;
	left->departure = (struct departure){
		.operations = flow->block->count,
		.branches = flow->branches,
		.taken = taken,
		.indirect = target != NULL,
		.target_value = target ? dataflow_value_of(flow, target) : 0,
	};
	put(flow, offsetof(struct notes, left), emit_word((ULong)(Addr)left));
}

void notes_end(struct dataflow *flow)
{
	flow->notes->block = flow->block;
	VG_(free)(flow->noted);
}
