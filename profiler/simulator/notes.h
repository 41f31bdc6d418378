/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the code of a block notes for the timing model, in the part of a
 * thread's state that Valgrind keeps free for tools: there a note is one
 * instruction.  References that differ from one value by constants share its note.
 */
#ifndef TLBSIM_NOTES_H
#define TLBSIM_NOTES_H

#include "program.h"
#include "tlbsim.h"

/* A reference: offset + value number `base` of the notes, or offset alone. */
#define NOTE_ABSOLUTE 0xffffu

struct noted_reference {
	Long offset;
	UShort base;
};

/* A block: its program, and its references by their numbers. */
struct noted_block {
	const struct program *program;
	UInt count, capacity;
	struct noted_reference *references;
};

/* One way to leave it. */
struct noted_departure {
	const struct noted_block *block;
	struct departure departure;
};

struct notes {
	const struct noted_departure *left;	/* NULL: the model knows */
	ULong values[];
};

/* A thread's notes, by its guest state. */
struct notes *notes_of(void *guest_state);

#endif
