/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The latencies of x86-64 instructions. */
#ifndef TLBCOST_COPIES_LATENCIES_H
#define TLBCOST_COPIES_LATENCIES_H

#include <Zydis/Zydis.h>
#include <stdint.h>

/*
 * From its register operands to its result, in cycles, without that of a memory operand.  0: the
 * core renames a register, or there is no result.
 */
uint8_t latency_of(const ZydisDecodedInstruction *instruction, const ZydisDecodedOperand *operands);

#endif
