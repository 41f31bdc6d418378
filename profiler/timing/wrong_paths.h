/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which wrong paths does a core execute, and when do they converge with the
 * right one?
 *
 * After a mispredicted branch a core executes the other path until the branch
 * is resolved.  What follows the convergence point runs on the wrong path as it
 * will on the right one, but for what either path has changed.  Loads among it
 * fetch their lines and translations early.  The convergence point is predicted
 * from the last execution of each side of the branch.
 */
#ifndef TLBCOST_TIMING_WRONG_PATHS_H
#define TLBCOST_TIMING_WRONG_PATHS_H

#include "convergence.h"

#define WRONG_PATHS_BRANCHES 4096u
#define WRONG_PATHS_RECENT 16u	/* more than PATH_STRETCHES */
#define WRONG_PATHS_PENDING 64u	/* branches whose paths are not complete */
#define WRONG_PATHS_OPEN 4u	/* wrong paths at once */

struct fork {
	uint64_t branch;
	struct path paths[2];	/* not taken, taken */
};

/* A wrong path up to its convergence point. */
struct wrong_path {
	struct path path;
	struct convergence convergence;
	uint32_t steps;		/* of the right path since */
};

/* A branch whose successor is not yet known. */
struct pending_branch {
	uint64_t branch;
	uint64_t first;		/* number of the first block after its own */
	struct stretch rest;	/* of its own block, if it was not taken */
	bool taken;
};

struct wrong_paths {
	struct fork forks[WRONG_PATHS_BRANCHES];
	struct stretch blocks[WRONG_PATHS_RECENT];	/* executed last */
	uint64_t executed;	/* blocks */
	struct pending_branch pending[WRONG_PATHS_PENDING];
	uint64_t oldest, branches;	/* that are there: numbers of the first and the next */
	uint32_t open;		/* wrong paths that have not converged yet */
	struct wrong_path wrong[WRONG_PATHS_OPEN];
};

void wrong_paths_init(struct wrong_paths *paths);

/*
 * A block was executed, with these predictions: adds to `outcomes` where in it
 * wrong paths converge with the right one.
 */
void wrong_paths_follow(struct wrong_paths *paths, const struct block *block,
			const struct departure *departure,
			struct outcomes *outcomes);

#endif
