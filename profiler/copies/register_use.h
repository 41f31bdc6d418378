/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which registers does an x86-64 instruction read and write, as the timing model sees them? */
#ifndef TLBCOST_COPIES_REGISTER_USE_H
#define TLBCOST_COPIES_REGISTER_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "instruction.h"

/* Their numbers. */
enum {
	GENERAL = 0,		/* 16 */
	CARRY = 16, OVERFLOW, STATUS,	/* the carry flag, the overflow flag, the others */
	MASK = 24,		/* 8 */
	VECTOR = 32,		/* 32 */
	X87 = 64,		/* all of it, and MMX */
	REGISTERS = 65,
};

/* Most that one instruction has, flags among them. */
#define REGISTERS_MOST (ZYDIS_MAX_OPERAND_COUNT + 3)

/* The number of a register; -1: it has none (RIP, segments). */
int register_number(ZydisRegister name);

/*
 * What it computes with, and what it writes.  Address registers do not count as read: the access
 * waits for them.  A zero idiom reads none.  Returns how many there are.
 */
unsigned registers_read(const struct instruction *instruction, uint8_t numbers[REGISTERS_MOST]);
unsigned registers_written(const struct instruction *instruction, uint8_t numbers[REGISTERS_MOST]);

/* The result depends on nothing: xor eax, eax. */
bool instruction_is_zero_idiom(const struct instruction *instruction);

/* No access is reordered with it: fences, locked instructions, xchg with memory. */
bool instruction_is_fence(const ZydisDecodedInstruction *zydis);

#endif
