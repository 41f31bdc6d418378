/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which instructions does a block have, and which registers are left for our code? */
#include "code_pages.h"
#include "translation.h"
#include "vdso.h"

#define RSP 4
/* Registers whose encoding needs no extension bit, RSP and RBP aside. */
#define LOW_REGISTERS 0x00cfu
#define ALL_REGISTERS 0xffffu

/* Its extension bits for the base are clear, so that another low register can be the base. */
static bool can_be_moved(const ZydisDecodedInstruction *z)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
	case ZYDIS_INSTRUCTION_ENCODING_3DNOW:
		return !(z->attributes & ZYDIS_ATTRIB_HAS_REX) || !z->raw.rex.B;
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		return z->raw.vex.size == 2 || z->raw.vex.B;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return z->raw.evex.B && z->raw.evex.X;
	default:
		return false;
	}
}

static int lowest(unsigned registers)
{
	return registers ? __builtin_ctz(registers) : -1;
}

/* Two registers for our code, of those that the program's does not use.  False: there are not. */
static bool choose_registers(struct translation *made, uint16_t used, bool relative)
{
	const unsigned free = ALL_REGISTERS & ~(unsigned)used & ~(1u << RSP);
	const int second = lowest(relative ? free & LOW_REGISTERS : free);
	int first;

	if (second < 0)
		return false;
	first = lowest(free & ~(1u << second));
	if (first < 0)
		return false;
	made->first = first;
	made->second = second;
	return true;
}

static unsigned records_of(const struct instruction *instruction)
{
	return instruction->repeats ? instruction->operand_count + 1u : instruction->operand_count;
}

static unsigned references_of(const struct instruction *instruction)
{
	return instruction->repeats ? 2u * instruction->operand_count : instruction->operand_count;
}

/* Add the next instruction if it fits.  Returns false if the block ends before it. */
static bool take(struct translation *made, struct instruction *instruction)
{
	const uint16_t used = made->used | instruction->registers;
	const bool relative = made->relative || names_relative(instruction);

	if (instruction->flow == FLOW_STEP || instruction->flow == FLOW_REFUSE)
		return false;
	if (made->count == CODE_BLOCK_MOST_INSTRUCTIONS ||
	    made->references + references_of(instruction) > CODE_BLOCK_MOST_REFERENCES)
		return false;
	if (names_relative(instruction) && !can_be_moved(&instruction->zydis)) {
		instruction->flow = FLOW_STEP;
		return false;
	}
	if (!choose_registers(made, used, relative))
		return false;
	made->used = used;
	made->relative = relative;
	made->references += references_of(instruction);
	made->records += records_of(instruction);
	made->count++;
	made->past = instruction->address + instruction->length;
	return true;
}

static bool in_first_page(const struct translation *made, uint64_t address)
{
	return address >> CODE_PAGE_SHIFT == made->address >> CODE_PAGE_SHIFT;
}

/*
 * A part ends here, by a conditional branch: may the code behind it be one, too?  All are in one
 * page, which is fetched once, and written and dropped as a whole.
 */
static bool add_part(struct translation *made)
{
	if (made->part_count + 1 == MOST_PARTS || !in_first_page(made, made->past) ||
	    vdso_is_clock(made->translator, made->past))
		return false;
	made->parts[made->part_count++] = (struct translated_part){
		.instructions = (uint8_t)made->count, .past = made->past,
		.target = made->instructions[made->count - 1].target,
	};
	return true;
}

/* Decode up to where the part ends. */
static enum flow select_part(struct translation *made)
{
	uint64_t address = made->past;

	for (;;) {
		struct instruction *instruction = &made->instructions[made->count];
		uint8_t bytes[16];
		size_t have = code_pages_fetch(made->translator, made->copy, address, bytes);

		if (!have || !instruction_decode(instruction, bytes, have, address))
			return FLOW_REFUSE;
		if (!take(made, instruction))
			return made->count && instruction->flow != FLOW_STEP &&
			       instruction->flow != FLOW_REFUSE ? FLOW_ON : instruction->flow;
		if (instruction->flow != FLOW_ON)
			return instruction->flow;
		address = made->past;
	}
}

enum flow select_instructions(struct translation *made)
{
	enum flow flow;

	do
		flow = select_part(made);
	while (flow == FLOW_BRANCH && in_first_page(made, made->past - 1) && add_part(made));
	if (made->part_count && (flow == FLOW_ON || flow == FLOW_STEP || flow == FLOW_REFUSE ||
				 !in_first_page(made, made->past - 1))) {
		/* It is better in a block of its own. */
		made->part_count--;
		made->count = made->parts[made->part_count].instructions;
		made->past = made->parts[made->part_count].past;
		flow = FLOW_BRANCH;
	}
	made->parts[made->part_count++] = (struct translated_part){
		.instructions = (uint8_t)made->count, .past = made->past,
	};
	return flow;
}
