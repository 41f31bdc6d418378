/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A block of code as the timing model sees it: which value depends on which, and where memory
 * is accessed.  The engine makes one when it translates the block, and runs it with the
 * addresses of its references whenever the block was executed.
 */
#ifndef TLBCOST_TIMING_BLOCK_H
#define TLBCOST_TIMING_BLOCK_H

#include "branches.h"
#include "core.h"

enum operation_kind {
	/* The next instruction; its address: operation_address(). */
	OP_INSTRUCTION,
	/* Value `to` is available `cycles` after values a and b. */
	OP_JOIN,
	/* Value `to` is what register a holds. */
	OP_GET,
	/* Registers from `to` on, b of them, hold value a. */
	OP_PUT,
	/* Value `to` is loaded from reference b; its address is value a. */
	OP_LOAD,
	/* Value b is stored to reference `to`; its address is value a. */
	OP_STORE,
	/* Loads and stores before and after keep their order; value `to`. */
	OP_FENCE,
	/* A branch on value a that is number b of the block. */
	OP_BRANCH,
};

struct operation {
	uint8_t kind, cycles;
	uint16_t to, a, b;
};

/* Of an instruction: the low 48 bits of its address, which identify it. */
static inline uint64_t operation_address(const struct operation *op)
{
	if (op->kind != OP_INSTRUCTION)
		return 0;
	return op->to | (uint64_t)op->a << 16 | (uint64_t)op->b << 32;
}

/* Value 0 is always available: constants. */
#define BLOCK_VALUES 8192u
#define BLOCK_REFERENCES 1024u
#define BLOCK_BRANCHES 256u

struct block {
	uint32_t count, capacity;
	struct operation operations[];
};

/* Of a branch of the block, by where the block begins: the same wherever the engine keeps it. */
static inline uint64_t block_branch(const struct block *block, uint32_t branch)
{
	return operation_address(&block->operations[0]) * BLOCK_BRANCHES + branch;
}

/* How control left a block that was executed. */
struct departure {
	uint32_t operations;	/* that were executed */
	uint32_t branches;	/* among these; all but the last fell through */
	bool taken;		/* the last one did not */
	bool indirect;		/* the block ended in a jump to a computed `target` */
	uint16_t target_value;	/* number of its value */
	uint64_t target;
};

#define BLOCK_PATH_ENDS 64u
#define BLOCK_CHANGED 512u

/* Before this operation wrong paths converge with the right one, or are abandoned. */
struct path_end {
	uint32_t operation;
	bool converged;
	uint32_t changed;	/* of `outcomes`, up to here: by either path */
};

/* Registers that a wrong path has changed. */
struct changed {
	uint16_t first, count;
};

/* Which of the executed branches were predicted, and where did wrong paths end? */
struct outcomes {
	bool predicted[BLOCK_BRANCHES];
	bool target_predicted;
	uint32_t path_end_count, changed_count;
	struct path_end path_ends[BLOCK_PATH_ENDS];
	struct changed changed[BLOCK_CHANGED];
};

/* Without wrong paths: wrong_paths_follow() adds these. */
void block_predict(const struct block *block, const struct departure *departure,
		   struct branches *branches, struct outcomes *outcomes);

#define BLOCK_CORES 32u

/*
 * Execute it on this many cores, at most BLOCK_CORES.  `addresses`: of the
 * references, by their numbers; 0: not executed, its condition did not hold.
 */
void block_run(const struct block *block, const struct departure *departure,
	       const struct outcomes *outcomes, const uint64_t *addresses,
	       struct core *cores, uint32_t count);

#endif
