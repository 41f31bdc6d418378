/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of memory references of a block when it is instrumented? */
#ifndef TLBSIM_RUN_H
#define TLBSIM_RUN_H

#include "pub_tool_basics.h"

/* One memory reference of a block of code. */
struct reference {
	Long offset;		/* from its base, or an address if absolute */
	UShort size;		/* bytes */
	UChar base;		/* index of its base, or REFERENCE_ABSOLUTE */
	UChar side;		/* TLB_LOAD or TLB_STORE */
	Int instruction;	/* of its instruction: bytes from the run's */
};

#define REFERENCE_ABSOLUTE 255
/* Arguments that fit in registers with the descriptor, on every host. */
#define RUN_BASES 4
#define RUN_REFERENCES 24

/* References to one base, or to absolute addresses near each other. */
struct range {
	Long low;		/* offset of the first byte, as in a reference */
	UShort last;		/* index in the run of its last reference */
	UChar base;
};

/* A run of references that are tested together, in program order. */
struct run {
	struct run *next;	/* of the same block, while it is instrumented */
	/* How far its first reference is from the end of its block. */
	UInt remaining;
	/* Of references' instructions. */
	ULong instruction;
	/* Bytes from the stack pointer to where it was before a call or return at the end. */
	Int stack_delta;
	UInt range_count;
	struct range ranges[RUN_BASES];	/* in the order of `last` */
	UInt count;
	struct reference references[];
};

/* The address of a reference or range, by the values of the run's bases. */
static inline ULong run_address(Long offset, UChar base, const ULong *bases)
{
	return (ULong)offset + (base == REFERENCE_ABSOLUTE ? 0 : bases[base]);
}

#endif
