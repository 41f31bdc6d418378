/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where do the two paths of a branch converge?
 *
 * Most branches of a program are short: both paths soon reach the same instruction.  The
 * convergence point is the one where they have changed the fewest registers.
 *
 * After Eyerman et al., "Simulating wrong-path instructions in decoupled
 * functional-first simulation" (ISPASS 2023).
 */
#ifndef TLBCOST_TIMING_CONVERGENCE_H
#define TLBCOST_TIMING_CONVERGENCE_H

#include "block.h"

#define PATH_STRETCHES 8u

/* A part of a block. */
struct stretch {
	const struct block *block;
	uint32_t begin, end;	/* operations */
};

/* What was executed after a branch that went one way. */
struct path {
	uint32_t count;
	struct stretch stretches[PATH_STRETCHES];
};

struct convergence {
	uint64_t address;	/* of the instruction */
	uint32_t stretch, operation;	/* that it is in the wrong path */
};

/* False: they do not converge. */
bool convergence_find(const struct path *wrong, const struct path *right,
		      struct convergence *found);

/* Spread a number over 32 bits. */
static inline uint64_t mix(uint64_t number)
{
	return (number * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

#endif
