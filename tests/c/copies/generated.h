/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has to be in registers so that an instruction accesses the arena and jumps to code? */
#ifndef TLBCOST_TEST_GENERATED_H
#define TLBCOST_TEST_GENERATED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "generated_bytes.h"
#include "instruction.h"
#include "traced.h"

#define MOST_PLANNED 6u
#define PUSHED_MARGIN 0x400u

struct plan {
	struct {
		int reg;
		uint64_t value;
	} all[MOST_PLANNED];
	unsigned count;
	ZydisRegister indices;	/* a vector of them has to be made small; or none */
	int pointer;		/* it jumps by this one; -1: by none */
	uint64_t absolute;	/* what its displacement has to lead to; 0: leave it */
	bool relative;		/* to the end of the instruction */
};

static inline int number_of(ZydisRegister name)
{
	name = name == ZYDIS_REGISTER_NONE ? name :
	       ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
	return name >= ZYDIS_REGISTER_RAX && name <= ZYDIS_REGISTER_R15 ?
		       (int)(name - ZYDIS_REGISTER_RAX) : -1;
}

static inline uint64_t value_of(const struct user_regs_struct *r, int number)
{
	const unsigned long long values[] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};

	return number >= 0 ? values[number] : 0;
}

static inline bool is_planned(const struct plan *plan, int reg)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->all[i].reg == reg)
			return true;
	return false;
}

static inline uint64_t planned(const struct plan *plan, const struct user_regs_struct *r, int reg)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->all[i].reg == reg)
			return plan->all[i].value;
	return value_of(r, reg);
}

static inline bool set(struct plan *plan, int reg, uint64_t value)
{
	if (reg < 0 || is_planned(plan, reg) || plan->count == MOST_PLANNED)
		return false;
	plan->all[plan->count].reg = reg;
	plan->all[plan->count++].value = value;
	return true;
}

/* Make base + index * scale what it has to be.  False: that is not possible. */
static inline bool plan_sum(struct maker *maker, struct plan *plan,
			    const struct user_regs_struct *r, const ZydisDecodedOperand *operand,
			    uint64_t sum, bool narrow)
{
	const int base = number_of(operand->mem.base), index = number_of(operand->mem.index);
	const uint64_t garbage = narrow ? draw(maker) << 32 : 0;
	uint64_t scale = operand->mem.scale;

	if (operand->mem.index == ZYDIS_REGISTER_AL)
		return set(plan, base, sum - (planned(plan, r, 0) & 0xffu));
	if (base < 0 || base == index) {
		scale += base >= 0;
		/* No 64-bit number of this kind is far from a multiple. */
		return set(plan, index,
			   (narrow ? (uint32_t)sum : sum) / scale + garbage * (scale == 1));
	}
	if (index >= 0 && !is_planned(plan, index) && below(maker, 2))
		set(plan, index, (uint64_t)((int64_t)draw(maker) >> below(maker, 64)));
	if (!is_planned(plan, base)) {
		sum -= index >= 0 ? planned(plan, r, index) * scale : 0;
		return set(plan, base, (narrow ? (uint32_t)sum : sum) + garbage);
	}
	return false;
}

static inline bool plan_memory(struct maker *maker, struct plan *plan,
			       const struct user_regs_struct *r, const struct instruction *it,
			       const ZydisDecodedOperand *operand)
{
	const ZydisDecodedInstruction *z = &it->zydis;
	const uint64_t arena = maker->world + ARENA;
	const uint64_t fs = operand->mem.segment == ZYDIS_REGISTER_FS ? r->fs_base : 0;
	const bool vector = operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB;
	const bool jumps = it->flow == FLOW_RETURN ||
			   ((it->flow == FLOW_JUMP_INDIRECT || it->flow == FLOW_CALL_INDIRECT) &&
			    operand->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT);
	int base = number_of(operand->mem.base), index = number_of(operand->mem.index);
	/* The stack's addresses always have 64 bits. */
	const bool narrow = z->address_width == 32 &&
			    (operand->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN || base != 4);
	const uint64_t displacement = (uint64_t)operand->mem.disp.value;
	uint64_t to = arena + PUSHED_MARGIN + below(maker, ARENA_BYTES - 2 * PUSHED_MARGIN), at;

	if (below(maker, 2))
		to &= ~UINT64_C(63);
	if (jumps) {
		plan->pointer = (int)maker->pointers;
		to = maker->world + POINTERS + 8 * maker->pointers;
	}
	/* Multiples of the scale need not meet it. */
	if (jumps && (base < 0 || base == index) && index >= 0)
		return false;
	if (operand->mem.type == ZYDIS_MEMOP_TYPE_MIB || (narrow && maker->world != WORLD_LOW && !fs))
		return false;
	if (operand->mem.base == ZYDIS_REGISTER_RIP || operand->mem.base == ZYDIS_REGISTER_EIP ||
	    (base < 0 && index < 0 && !vector)) {
		plan->absolute = to - fs;
		plan->relative = operand->mem.base == ZYDIS_REGISTER_RIP;
		return plan->relative || (int64_t)(to - fs) == (int32_t)(to - fs);
	}
	if (vector) {
		plan->indices = operand->mem.index;
		return set(plan, base, to - fs - displacement);
	}
	if (z->mnemonic == ZYDIS_MNEMONIC_LEAVE)
		return set(plan, 5, to);
	at = planned(plan, r, base) + planned(plan, r, index) * operand->mem.scale + displacement;
	if (operand->mem.index == ZYDIS_REGISTER_AL)
		at = planned(plan, r, base) + (planned(plan, r, 0) & 0xffu);
	at = (narrow ? (uint32_t)at : at) + fs;
	if (!jumps && at >= arena + PUSHED_MARGIN && at < arena + ARENA_BYTES - PUSHED_MARGIN)
		return true;
	return plan_sum(maker, plan, r, operand, to - fs - displacement, narrow);
}

/* Other registers that decide where it accesses memory, or how long. */
static inline bool plan_others(struct maker *maker, struct plan *plan, const struct instruction *it)
{
	const ZydisDecodedOperand *operands = it->zydis_operands;

	if (it->repeats)
		return set(plan, 1, below(maker, 40));
	switch (it->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		return operands[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		       operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		       set(plan, number_of(operands[1].reg.value),
			   (uint64_t)((int64_t)below(maker, 8000) - 4000));
	case ZYDIS_MNEMONIC_ENTER:
		return set(plan, 5, maker->world + ARENA + ARENA_BYTES / 2 + 8 * below(maker, 64));
	case ZYDIS_MNEMONIC_CLZERO:
		return set(plan, 0, maker->world + ARENA + PUSHED_MARGIN + below(maker, 4096));
	default:
		return true;
	}
}

/* What has to be done first.  False: it cannot be used. */
static inline bool plan_for(struct maker *maker, struct plan *plan,
			    const struct user_regs_struct *r, const struct instruction *it)
{
	*plan = (struct plan){ .pointer = -1 };
	if (it->flow == FLOW_REFUSE || it->flow == FLOW_SYSTEM_CALL || is_banned(maker, it) ||
	    !plan_others(maker, plan, it))
		return false;
	for (unsigned i = 0; i < it->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &it->zydis_operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
		    !plan_memory(maker, plan, r, it, operand))
			return false;
	}
	/* It would push where code or pointers are. */
	return it->flow != FLOW_CALL_INDIRECT ||
	       (!is_planned(plan, 4) && (it->zydis_operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER ||
					 number_of(it->zydis_operands[0].reg.value) != 4));
}

#endif
