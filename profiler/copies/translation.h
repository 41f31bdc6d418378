/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A block in the making: what select.c and block_code.c give to translate.c.  Private to these. */
#ifndef TLBCOST_COPIES_TRANSLATION_H
#define TLBCOST_COPIES_TRANSLATION_H

#include <stdbool.h>
#include <stdint.h>

#include "code_cache.h"
#include "copy.h"
#include "emit.h"
#include "instruction.h"

/* Blocks that are translated ahead, so that fewer jumps stop the copy. */
#define MOST_AHEAD 24u
#define INT3 0xccu
/*
 * Parts of one piece of code: a conditional branch that is not taken leads from each to the next.
 */
#define MOST_PARTS 8u

/* Up to its end: */
struct translated_part {
	uint8_t instructions, references, records;
	uint64_t past, target;		/* of its branch */
	uint32_t offset;		/* where its code begins */
	uint32_t branch;		/* the distance of its branch is at this offset */
};

struct translation {
	struct translator *translator;
	const struct copy *copy;
	struct emitter emitter;
	uint64_t address, past;
	unsigned count;			/* instructions that it holds */
	unsigned references;
	unsigned records;
	uint16_t used;			/* registers of the program's that it uses */
	bool relative;			/* it accesses memory relative to RIP */
	int first, second;		/* registers that it does not: of our code */
	uint8_t end;			/* enum block_end */
	uint64_t target;
	/* For each general register: the record of its value, and what was added to it since. */
	struct {
		uint8_t record;		/* 0: there is none */
		int64_t added;
	} recorded[16];
	struct slot slots[CODE_BLOCK_MOST_REFERENCES];
	struct code_reference made[CODE_BLOCK_MOST_REFERENCES];
	struct instruction instructions[CODE_BLOCK_MOST_INSTRUCTIONS + 1];
	struct translated_part parts[MOST_PARTS];
	unsigned part_count;
	uint32_t begin;			/* of its code */
	bool emitted;
};

/* It may follow: where translation should continue. */
struct ahead {
	uint64_t addresses[MOST_AHEAD];
	unsigned count;
};

static inline void add_ahead(struct ahead *ahead, uint64_t address)
{
	if (ahead->count < MOST_AHEAD)
		ahead->addresses[ahead->count++] = address;
}

/* Does it name memory relative to RIP, other than as the target of a branch? */
static inline bool names_relative(const struct instruction *instruction)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;

	return z->attributes & ZYDIS_ATTRIB_HAS_MODRM && z->raw.modrm.mod == 0 &&
	       z->raw.modrm.rm == 5;
}

/*
 * Decode up to where the block ends, which begins at made->address, and more blocks that follow
 * it: the parts.  Returns what comes after the last one: FLOW_ON if that was only cut.
 */
enum flow select_instructions(struct translation *made);

/*
 * Write its code, which ends as `flow` says; references and records are counted again.  `number` is
 * its first part's.  What may come next is added to `ahead`.  Returns 0, or -1 with errno ENOMEM.
 */
int write_block(struct translation *made, enum flow flow, uint32_t number, struct ahead *ahead);

#endif
