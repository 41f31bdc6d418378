/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which calls lead to page walks?  A stack of return addresses follows the calls and returns of a
 * window, on top of the calls that it began in.
 *
 * Each distinct stack is a node of a tree: its innermost return address, and the stack below it.
 */
#ifndef TLBCOST_COPIES_STACKS_H
#define TLBCOST_COPIES_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "code_block.h"
#include "tlb/tlb_config.h"

/* Deeper calls are not distinguished from their callers. */
#define STACKS_DEPTH 512u
#define NO_STACK 0u		/* its number: no call is known */

struct stack_node {
	uint64_t address;	/* where it returns to */
	uint32_t below;		/* number of the stack without it */
	uint32_t process;	/* addresses of different ones are different */
	uint32_t mapping;	/* the caller's: where the call is */
};

/* Walks of an instruction, called through a stack, in a window. */
struct stack_row {
	uint64_t address;
	uint32_t window, stack;
	uint64_t walks[TLB_SIZES];
};

/* Indices into an array, by what its elements hold. */
struct stack_index {
	uint32_t *slots;	/* number + 1; 0: free */
	size_t capacity;
};

/* Zeroed is empty. */
struct stacks {
	struct {
		uint64_t address;
		uint32_t node;	/* 0: not looked up yet */
	} frames[STACKS_DEPTH];
	unsigned depth, hidden;		/* hidden: calls above STACKS_DEPTH */
	uint32_t window, process;
	struct stack_node *nodes;	/* [0]: NO_STACK */
	size_t node_count, node_capacity;
	struct stack_row *rows;
	size_t row_count, row_capacity;
	struct stack_index node_index, row_index;
};

/* A window begins; it was called through these, innermost first. */
void stacks_begin(struct stacks *stacks, uint32_t window, uint32_t process,
		  const uint64_t *addresses, unsigned count);
void stacks_free(struct stacks *stacks);

/* A block that ends in a call or a return was executed; `next` comes after it. */
void stacks_transferred(struct stacks *stacks, const struct code_block *block, uint64_t next);

static inline void stacks_executed(struct stacks *stacks, const struct code_block *block,
				   uint64_t next)
{
	if (block->end == ENDS_CALL || block->end == ENDS_INDIRECT_CALL ||
	    block->end == ENDS_RETURN)
		stacks_transferred(stacks, block, next);
}

/* The instruction at `address` needed a page walk.  Returns 0, or -1 with errno ENOMEM. */
int stacks_walked(struct stacks *stacks, enum tlb_size size, uint64_t address);

#endif
