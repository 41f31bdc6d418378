/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A block of the program's code: executed from its first instruction to its last, with one way in.
 * The translator makes it; whatever watches the copy knows the block by this record.
 */
#ifndef TLBCOST_COPIES_CODE_BLOCK_H
#define TLBCOST_COPIES_CODE_BLOCK_H

#include <stdint.h>

enum reference_kind {
	REFERENCE_LOAD,
	REFERENCE_STORE,
	REFERENCE_MODIFY,	/* a load and then a store of the same bytes */
	/*
	 * Not a reference: the bytes that the one before it covers, of a string instruction that
	 * repeats.  Its place among the addresses has that number, which may be 0.
	 */
	REFERENCE_LENGTH,
};

struct code_reference {
	uint16_t instruction;	/* index in the block */
	uint16_t bytes;		/* of one element, if it repeats */
	uint8_t kind;		/* enum reference_kind */
};

struct code_instruction {
	uint64_t address;
	uint8_t length;
};

/* How the block ends. */
enum block_end {
	ENDS_CUT,		/* it was cut here: the next instruction follows */
	ENDS_BRANCH,		/* a conditional branch */
	ENDS_JUMP, ENDS_CALL,	/* direct */
	ENDS_INDIRECT_JUMP, ENDS_INDIRECT_CALL,
	ENDS_RETURN,
	ENDS_SYSTEM_CALL,	/* its last instruction is `syscall` */
	ENDS_STEP,		/* what follows is single-stepped: a block of one instruction */
};

#define CODE_BLOCK_MOST_INSTRUCTIONS 32u
#define CODE_BLOCK_MOST_REFERENCES 64u

struct code_block {
	uint64_t address, past;	/* of its first byte, and past its last */
	uint64_t target;	/* of a direct branch, jump or call that ends it */
	uint32_t number;	/* unique while the code cache lives */
	uint8_t end;		/* enum block_end */
	uint8_t instruction_count, reference_count;
	const struct code_instruction *instructions;
	const struct code_reference *references;
	void *watched;		/* the watcher's own: see follow.h */
};

#endif
