/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One decoded instruction: what it accesses, where control goes, which registers it uses.
 */
#ifndef TLBCOST_COPIES_INSTRUCTION_H
#define TLBCOST_COPIES_INSTRUCTION_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

enum flow {
	FLOW_ON, FLOW_BRANCH, FLOW_JUMP, FLOW_CALL, FLOW_RETURN, FLOW_JUMP_INDIRECT,
	FLOW_CALL_INDIRECT, FLOW_SYSTEM_CALL,
	FLOW_STEP,	/* single-stepped: gathers, scatters, what is not known */
	FLOW_REFUSE,	/* ends the window */
};

enum { REGISTER_NONE = -1, REGISTER_RIP = 16 };	/* general registers: 0 (rax) to 15 (r15) */

struct memory_operand {
	int8_t base, index;
	uint8_t scale;
	bool fs;		/* relative to the FS base */
	bool narrow;		/* a 32-bit address */
	uint8_t kind;		/* enum reference_kind */
	uint16_t bytes;
	int64_t displacement;
};

#define INSTRUCTION_MOST_OPERANDS 4u

struct instruction {
	uint64_t address;
	uint8_t length, flow;	/* enum flow */
	uint8_t operand_count;
	bool repeats;		/* a string instruction with a REP prefix */
	uint16_t registers;	/* bit set of the general registers that it reads or writes */
	struct memory_operand operands[INSTRUCTION_MOST_OPERANDS];
	uint64_t target;	/* of direct branches, jumps and calls */
	uint8_t bytes[16];
	/* All that is known, for the timing model. */
	ZydisDecodedInstruction zydis;
	ZydisDecodedOperand zydis_operands[ZYDIS_MAX_OPERAND_COUNT];
};

/* False: not an instruction. */
bool instruction_decode(struct instruction *instruction, const uint8_t *code, size_t length,
			uint64_t address);

/* BT, BTS, BTR, BTC: a register says how far from its operand the memory is that it accesses. */
bool instruction_has_bit_offset(const struct instruction *instruction);

#endif
