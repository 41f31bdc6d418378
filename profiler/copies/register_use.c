/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "register_use.h"

int register_number(ZydisRegister name)
{
	const ZydisRegister whole =
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);

	switch (ZydisRegisterGetClass(name)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR32:
	case ZYDIS_REGCLASS_GPR64:
		return GENERAL + (int)(whole - ZYDIS_REGISTER_RAX);
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		return VECTOR + ZydisRegisterGetId(name);
	case ZYDIS_REGCLASS_MASK:
		return name == ZYDIS_REGISTER_K0 ? -1 : MASK + ZydisRegisterGetId(name);
	case ZYDIS_REGCLASS_X87:
	case ZYDIS_REGCLASS_MMX:
		return X87;
	default:
		return -1;
	}
}

/* Does a write leave part of the register as it was? */
static bool merges(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operand)
{
	if (operand->actions & ZYDIS_OPERAND_ACTION_CONDWRITE)
		return true;
	switch (ZydisRegisterGetClass(operand->reg.value)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
		return true;
	case ZYDIS_REGCLASS_XMM:
		/* Scalars of SSE keep the upper part, but for loads. */
		return z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && z->meta.category !=
			       ZYDIS_CATEGORY_DATAXFER && operand->element_count == 1 &&
		       operand->element_size < 128;
	default:
		return false;
	}
}

/* xor eax, eax; vpxor xmm0, xmm1, xmm1; comparisons of a vector with itself: all ones, or none. */
static bool forgets_equal_inputs(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_XOR: case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_PXOR: case ZYDIS_MNEMONIC_XORPS: case ZYDIS_MNEMONIC_XORPD:
	case ZYDIS_MNEMONIC_VPXOR: case ZYDIS_MNEMONIC_VXORPS: case ZYDIS_MNEMONIC_VXORPD:
	case ZYDIS_MNEMONIC_VPXORD: case ZYDIS_MNEMONIC_VPXORQ:
	case ZYDIS_MNEMONIC_PSUBB: case ZYDIS_MNEMONIC_PSUBW: case ZYDIS_MNEMONIC_PSUBD:
	case ZYDIS_MNEMONIC_PSUBQ: case ZYDIS_MNEMONIC_VPSUBB: case ZYDIS_MNEMONIC_VPSUBW:
	case ZYDIS_MNEMONIC_VPSUBD: case ZYDIS_MNEMONIC_VPSUBQ:
	case ZYDIS_MNEMONIC_PCMPEQB: case ZYDIS_MNEMONIC_PCMPEQW: case ZYDIS_MNEMONIC_PCMPEQD:
	case ZYDIS_MNEMONIC_VPCMPEQB: case ZYDIS_MNEMONIC_VPCMPEQW: case ZYDIS_MNEMONIC_VPCMPEQD:
	case ZYDIS_MNEMONIC_PCMPGTB: case ZYDIS_MNEMONIC_PCMPGTW: case ZYDIS_MNEMONIC_PCMPGTD:
	case ZYDIS_MNEMONIC_VPCMPGTB: case ZYDIS_MNEMONIC_VPCMPGTW: case ZYDIS_MNEMONIC_VPCMPGTD:
		return true;
	default:
		return false;
	}
}

bool instruction_is_zero_idiom(const struct instruction *instruction)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;
	const ZydisDecodedOperand *operands = instruction->zydis_operands;
	const unsigned second = z->operand_count_visible - 1u;

	if (!forgets_equal_inputs(z->mnemonic))
		return false;
	if (z->operand_count_visible < 2 || operands[second].type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    operands[second - 1].type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    operands[second].reg.value != operands[second - 1].reg.value)
		return false;
	if (z->avx.mask.mode == ZYDIS_MASK_MODE_MERGING)
		return false;
	return ZydisRegisterGetClass(operands[second].reg.value) != ZYDIS_REGCLASS_GPR8 &&
	       ZydisRegisterGetClass(operands[second].reg.value) != ZYDIS_REGCLASS_GPR16;
}

static const struct { ZydisAccessedFlagsMask flags; uint8_t number; } flag_groups[] = {
	{ ZYDIS_CPUFLAG_CF, CARRY },
	{ ZYDIS_CPUFLAG_OF, OVERFLOW },
	{ ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF, STATUS },
};

#define FLAG_GROUPS (sizeof(flag_groups) / sizeof(flag_groups[0]))

static ZydisAccessedFlagsMask flags_written(const ZydisDecodedInstruction *z)
{
	return z->cpu_flags ? z->cpu_flags->modified | z->cpu_flags->set_0 | z->cpu_flags->set_1 |
				      z->cpu_flags->undefined : 0;
}

/* The stack engine renames rsp: what pushes and pops do to it has no latency. */
static bool is_stack_change(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operand)
{
	return operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
	       operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value) ==
		       ZYDIS_REGISTER_RSP &&
	       (z->meta.category == ZYDIS_CATEGORY_PUSH || z->meta.category == ZYDIS_CATEGORY_POP ||
		z->meta.category == ZYDIS_CATEGORY_CALL || z->meta.category == ZYDIS_CATEGORY_RET);
}

unsigned registers_read(const struct instruction *instruction, uint8_t numbers[REGISTERS_MOST])
{
	const ZydisDecodedInstruction *z = &instruction->zydis;
	unsigned count = 0;

	if (instruction_is_zero_idiom(instruction))
		return 0;
	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];
		int number;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || is_stack_change(z, operand))
			continue;
		number = register_number(operand->reg.value);
		if (number >= 0 && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ ||
				    merges(z, operand)))
			numbers[count++] = (uint8_t)number;
	}
	for (unsigned i = 0; i < FLAG_GROUPS; i++)
		if (z->cpu_flags && z->cpu_flags->tested & flag_groups[i].flags)
			numbers[count++] = flag_groups[i].number;
	return count;
}

unsigned registers_written(const struct instruction *instruction, uint8_t numbers[REGISTERS_MOST])
{
	const ZydisDecodedInstruction *z = &instruction->zydis;
	unsigned count = 0;

	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    !is_stack_change(z, operand) && register_number(operand->reg.value) >= 0)
			numbers[count++] = (uint8_t)register_number(operand->reg.value);
	}
	for (unsigned i = 0; i < FLAG_GROUPS; i++)
		if (flags_written(z) & flag_groups[i].flags)
			numbers[count++] = flag_groups[i].number;
	return count;
}

bool instruction_is_fence(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MFENCE:
	case ZYDIS_MNEMONIC_LFENCE:
	case ZYDIS_MNEMONIC_CPUID:
	case ZYDIS_MNEMONIC_SERIALIZE:
		return true;
	default:
		return z->attributes & ZYDIS_ATTRIB_HAS_LOCK ||
		       (z->mnemonic == ZYDIS_MNEMONIC_XCHG &&
			z->attributes & ZYDIS_ATTRIB_HAS_MODRM && z->raw.modrm.mod != 3);
	}
}
