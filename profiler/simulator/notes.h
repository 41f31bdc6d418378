/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the code of a block notes for the timing model, in the part of a
 * thread's state that Valgrind keeps free for tools: there a note is one
 * instruction.  References that differ from one value by constants share its note.
 */
#ifndef TLBSIM_NOTES_H
#define TLBSIM_NOTES_H

#include "dataflow_values.h"

/* A reference: offset + value number `base` of the notes, or offset alone. */
#define NOTE_ABSOLUTE 0xffffu

struct noted_reference {
	Long offset;
	UShort base;
};

/* A block, and its references by their numbers. */
struct noted_block {
	const struct block *block;
	UInt count, capacity;
	struct noted_reference *references;
};

/* One way to leave it. */
struct noted_departure {
	const struct noted_block *notes;
	struct departure departure;
};

/* The argument by which a call finds its thread's notes. */
IRExpr *notes_argument(void);

/*
 * How the thread left its last block, by that argument, and the values noted in it, until the next
 * call; they are taken once.  NULL: the model knows.
 */
const struct noted_departure *notes_take(void *guest_state, const ULong **values);

/* The call reads and changes them. */
void notes_modified(IRDirty *call, const VexGuestLayout *layout);

/* A block begins, and ends. */
void notes_start(struct dataflow *flow);
void notes_end(struct dataflow *flow);
/* Note where a reference is, if the guard holds; its number, or -1 if there are too many. */
Int note_reference(struct dataflow *flow, const IRExpr *address, IRExpr *guard);
/*
 * Note that the block may exit here, by the last branch or not, and its target if that is
 * computed.
 */
void note_departure(struct dataflow *flow, Bool taken, const IRExpr *target);

#endif
