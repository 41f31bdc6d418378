/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where does the path that a core takes by mistake meet the right one?
 *
 * After a branch that was not predicted a core runs the other way until the
 * branch is resolved.  Most branches of a program are small: both ways soon
 * come to the same instruction, and what follows there runs on the wrong path
 * as it will on the right one, but for what either way has changed.  Loads
 * among it bring their lines and translations early.  Of either way we
 * know what followed the last time that it was taken, and take the two ways to
 * meet where they have changed the fewest registers.
 *
 * After Eyerman et al., "Simulating wrong-path instructions in decoupled
 * functional-first simulation" (ISPASS 2023), who call it convergence.
 */
#ifndef TLBCOST_TIMING_PATHS_H
#define TLBCOST_TIMING_PATHS_H

#include "program.h"

#define PATHS_BRANCHES 4096u
#define PATHS_BLOCKS 8u		/* kept of what followed a branch */
#define PATHS_RECENT 16u	/* more than that */
#define PATHS_BEHIND 64u	/* branches of which it is not yet known */
#define PATHS_WRONG 4u		/* wrong paths at once */

/* A part of a block. */
struct stretch {
	const struct program *program;
	uint32_t begin, end;	/* operations */
};

/* What followed a branch that went one way. */
struct way {
	uint32_t count;
	struct stretch stretches[PATHS_BLOCKS];
};

struct fork {
	uint64_t branch;
	struct way ways[2];	/* not taken, taken */
};

/* A wrong path up to where it converges with the right one. */
struct wrong_path {
	struct way way;
	uint64_t convergence;	/* address of the instruction */
	uint32_t stretch, operation;	/* that it is in the way */
	uint32_t steps;		/* of the right path since */
};

/* A branch of which it is not yet known what followed. */
struct behind {
	uint64_t branch;
	uint64_t first;		/* number of the first block after its own */
	struct stretch rest;	/* of its own block, if it was not taken */
	bool taken;
};

struct paths {
	struct fork forks[PATHS_BRANCHES];
	struct stretch blocks[PATHS_RECENT];	/* executed last */
	uint64_t executed;	/* blocks */
	struct behind behind[PATHS_BEHIND];
	uint64_t oldest, branches;	/* that are there: numbers of the first and the next */
	uint32_t wrong_count;	/* wrong paths that have not converged with the right one */
	struct wrong_path wrong[PATHS_WRONG];
};

void paths_init(struct paths *paths);

/*
 * A block was executed, and `outcomes` tells what was predicted: adds where in
 * it wrong paths meet the right one.
 */
void paths_follow(struct paths *paths, const struct program *program,
		  const struct departure *departure, struct outcomes *outcomes);

#endif
