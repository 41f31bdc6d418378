/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A block of code as the timing model sees it: which value needs which, and
 * where memory is referred to.  The engine makes one when it translates the
 * block, and runs it with the addresses of its references whenever the block
 * was executed.
 */
#ifndef TLBCOST_TIMING_PROGRAM_H
#define TLBCOST_TIMING_PROGRAM_H

#include "branches.h"
#include "core.h"

enum operation_kind {
	/* The next instruction. */
	OP_INSTRUCTION,
	/* Value `to` is there `cycles` after values a and b. */
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

/* Value 0 is always there: constants. */
#define PROGRAM_VALUES 8192u
#define PROGRAM_REFERENCES 1024u
#define PROGRAM_BRANCHES 256u

struct program {
	uint32_t count, capacity;
	struct operation operations[];
};

/* How control left a block that was executed. */
struct departure {
	uint32_t operations;	/* that were executed */
	uint32_t branches;	/* among these; all but the last fell through */
	bool taken;		/* the last one did not */
	bool indirect;		/* the block ended in a jump to a computed `target` */
	uint16_t target_value;	/* number of its value */
	uint64_t target;
};

/* Which of the executed branches were not predicted? */
struct outcomes {
	bool predicted[PROGRAM_BRANCHES];
	bool target_predicted;
};

void program_predict(const struct program *program,
		     const struct departure *departure,
		     struct branches *branches, struct outcomes *outcomes);

/*
 * Execute it on a core.  `addresses`: of the references, by their numbers; 0:
 * not made, its condition did not hold.
 */
void program_run(const struct program *program,
		 const struct departure *departure,
		 const struct outcomes *outcomes, const uint64_t *addresses,
		 struct core *core);

#endif
