/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast does the program run where a window begins?  An arm of the copy runs natively for a
 * while, and its place before and after is noted: the next addresses that it accesses.  When the
 * copy is followed it comes by both places, and its instructions between them are counted.
 */
#ifndef TLBCOST_COPIES_PACE_H
#define TLBCOST_COPIES_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"
#include "copy.h"

#define PLACE_REFERENCES 24u

/* Where an arm was: what it accessed next. */
struct place {
	struct { uint64_t instruction, address; } all[PLACE_REFERENCES];
	unsigned count;
	/* As the copy is followed. */
	unsigned matched;	/* of these, by the last blocks */
	bool found;
	uint64_t instructions;	/* the copy's, up to there */
};

/* Zeroed: nothing was run. */
struct pace {
	struct place before, after;
	uint64_t cpu_ns;	/* that the arm took between them */
	bool lost;		/* a place was met twice, or in the wrong order */
	uint64_t instructions;	/* that the copy was followed for */
};

/*
 * Run arms of a copy that is stopped; it stays where it is.  What cannot be measured leaves
 * ->cpu_ns 0: a copy that makes a call soon, with memory that is shared or large, or a loop without
 * references.
 */
void pace_run(struct pace *pace, struct copy *copy);

/* The copy executed a block. */
void pace_executed(struct pace *pace, const struct code_block *block, const uint64_t *addresses);

/* Instructions that took cpu_ns; 0: not known. */
uint64_t pace_instructions(const struct pace *pace);

#endif
