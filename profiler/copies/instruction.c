/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instruction.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>

#include "code_block.h"

#define RAX 0
#define RSP 4
#define RBP 5
#define CLZERO_BYTES 64u

static const ZydisDecoder *decoder(void)
{
	static ZydisDecoder made;
	static bool ready;

	if (!ready) {
		ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ready = true;
	}
	return &made;
}

/* The number of a general register; REGISTER_NONE for any other. */
static int general(ZydisRegister name)
{
	if (name == ZYDIS_REGISTER_NONE)
		return REGISTER_NONE;
	if (name == ZYDIS_REGISTER_RIP || name == ZYDIS_REGISTER_EIP)
		return REGISTER_RIP;
	name = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
	if (name >= ZYDIS_REGISTER_RAX && name <= ZYDIS_REGISTER_R15)
		return (int)(name - ZYDIS_REGISTER_RAX);
	return REGISTER_NONE;
}

static void uses(struct instruction *instruction, int number)
{
	if (number >= 0 && number < REGISTER_RIP)
		instruction->registers |= (uint16_t)(1u << number);
}

/* It names memory, and accesses none. */
static bool accesses_nothing(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_CLFLUSH:
	case ZYDIS_MNEMONIC_CLFLUSHOPT:
	case ZYDIS_MNEMONIC_CLWB:
	case ZYDIS_MNEMONIC_CLDEMOTE:
	case ZYDIS_MNEMONIC_INVLPG:
		return true;
	default:
		return z->meta.category == ZYDIS_CATEGORY_PREFETCH ||
		       z->meta.category == ZYDIS_CATEGORY_WIDENOP ||
		       z->meta.category == ZYDIS_CATEGORY_NOP;
	}
}

static bool is_string(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_STRINGOP;
}

/* What no copy may execute, or what is executed elsewhere than it seems. */
static bool is_refused(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XEND:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_WRFSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_SYSENTER:
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_SYSEXIT:
	case ZYDIS_MNEMONIC_SWAPGS:
	case ZYDIS_MNEMONIC_SENDUIPI:
	case ZYDIS_MNEMONIC_UIRET:
		return true;
	default:
		return z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ||
		       z->meta.category == ZYDIS_CATEGORY_SYSRET ||
		       z->meta.category == ZYDIS_CATEGORY_IO ||
		       z->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
	}
}

/*
 * Its references have no base, index and displacement, or it would do something else at another
 * address.
 */
static bool is_stepped(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_CLZERO:
	case ZYDIS_MNEMONIC_ENTER:
	case ZYDIS_MNEMONIC_XLAT:
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_MASKMOVQ:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_JCXZ:
	case ZYDIS_MNEMONIC_JECXZ:
	case ZYDIS_MNEMONIC_JRCXZ:
	case ZYDIS_MNEMONIC_FNSTENV:
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		return true;
	case ZYDIS_MNEMONIC_PAUSE:
		/* XCHG with R8, to processors; Zydis knows no register of it. */
		return z->raw.rex.B;
	default:
		return false;
	}
}

bool instruction_has_bit_offset(const struct instruction *instruction)
{
	switch (instruction->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		return instruction->operand_count &&
		       instruction->zydis_operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
	default:
		return false;
	}
}

/* A string whose address is not just what is in the register. */
static bool is_string_elsewhere(const struct instruction *instruction)
{
	for (unsigned i = 0; i < instruction->operand_count; i++)
		if (instruction->operands[i].narrow || instruction->operands[i].fs)
			return true;
	return false;
}

static uint8_t kind_of(const ZydisDecodedOperand *operand)
{
	bool reads = operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	bool writes = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

	if (writes)
		return reads ? REFERENCE_MODIFY : REFERENCE_STORE;
	return REFERENCE_LOAD;
}

/* Where a stack instruction's hidden operand really is, relative to the registers before it. */
static void adjust_stack(const ZydisDecodedInstruction *z, bool hidden, struct memory_operand *memory)
{
	bool pushes = z->meta.category == ZYDIS_CATEGORY_PUSH ||
		      z->meta.category == ZYDIS_CATEGORY_CALL;

	/* The stack's addresses have 64 bits, whatever the prefix says. */
	if (hidden && memory->base == RSP)
		memory->narrow = false;
	if (hidden && z->mnemonic == ZYDIS_MNEMONIC_LEAVE) {
		memory->base = RBP;
		memory->displacement = 0;
	} else if (hidden && memory->base == RSP && pushes) {
		memory->displacement = -(int64_t)memory->bytes;
	} else if (!hidden && memory->base == RSP && z->mnemonic == ZYDIS_MNEMONIC_POP) {
		/* Its address is computed after the stack pointer has moved. */
		memory->displacement += memory->bytes;
	}
}

/* Zydis knows the part of an XSAVE image that is always there. */
static uint16_t bytes_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operand)
{
	unsigned a, bytes, c, d;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_XSAVE:
	case ZYDIS_MNEMONIC_XSAVE64:
	case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64:
	case ZYDIS_MNEMONIC_XRSTOR:
	case ZYDIS_MNEMONIC_XRSTOR64:
		if (__get_cpuid_count(0xd, 0, &a, &bytes, &c, &d) && bytes)
			return (uint16_t)bytes;
		break;
	default:
		break;
	}
	return operand->size ? (uint16_t)(operand->size / 8) : 1;
}

/* ENTER pushes the frame pointer, then those of the outer frames and its own. */
static void set_enter_operands(struct instruction *instruction, struct memory_operand *pushed)
{
	const unsigned level = (unsigned)instruction->zydis_operands[1].imm.value.u & 31u;
	const unsigned bytes = pushed->bytes, pushes = level + 1u;

	pushed->bytes = (uint16_t)(bytes * pushes);
	pushed->displacement = -(int64_t)pushed->bytes;
	if (level < 2)
		return;
	instruction->operands[instruction->operand_count++] = (struct memory_operand){
		.base = RBP, .index = REGISTER_NONE, .scale = 1, .kind = REFERENCE_LOAD,
		.bytes = (uint16_t)(bytes * (level - 1)),
		.displacement = -(int64_t)bytes * (level - 1),
	};
}

/* Returns false if it has to be single-stepped, or refused: ->flow says which. */
static bool add_memory(struct instruction *instruction, const ZydisDecodedOperand *operand)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;
	const int base = general(operand->mem.base), index = general(operand->mem.index);
	const bool hidden = operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
	struct memory_operand *memory;

	if (operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB || operand->mem.type == ZYDIS_MEMOP_TYPE_MIB) {
		instruction->flow = FLOW_STEP;
		return false;
	}
	uses(instruction, base);
	uses(instruction, index);
	if ((operand->mem.segment == ZYDIS_REGISTER_GS && z->mnemonic != ZYDIS_MNEMONIC_LEA) ||
	    (base == REGISTER_RIP && z->address_width != 64)) {
		instruction->flow = FLOW_REFUSE;
		return false;
	}
	if (operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN || accesses_nothing(z))
		return true;
	if (instruction->operand_count == INSTRUCTION_MOST_OPERANDS) {
		instruction->flow = FLOW_STEP;
		return false;
	}
	memory = &instruction->operands[instruction->operand_count++];
	*memory = (struct memory_operand){
		.base = (int8_t)base,
		.index = (int8_t)index,
		.scale = operand->mem.scale ? operand->mem.scale : 1,
		.fs = operand->mem.segment == ZYDIS_REGISTER_FS,
		.narrow = z->address_width == 32 && base != REGISTER_RIP,
		.kind = kind_of(operand),
		.bytes = bytes_of(z, operand),
		.displacement = operand->mem.disp.has_displacement ? operand->mem.disp.value : 0,
	};
	adjust_stack(z, hidden, memory);
	if (z->mnemonic == ZYDIS_MNEMONIC_ENTER)
		set_enter_operands(instruction, memory);
	return true;
}

/* Zydis knows only the register; the step shows which line it is in. */
static void set_clzero_operand(struct instruction *instruction)
{
	instruction->operand_count = 1;
	instruction->operands[0] = (struct memory_operand){
		.base = RAX, .index = REGISTER_NONE, .scale = 1, .kind = REFERENCE_STORE,
		.bytes = CLZERO_BYTES, .narrow = instruction->zydis.address_width == 32,
	};
}

static void set_target(struct instruction *instruction, uint8_t direct, uint8_t indirect)
{
	const ZydisDecodedOperand *operand = &instruction->zydis_operands[0];

	if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		instruction->flow = direct;
		instruction->target = instruction->address + instruction->length +
				      (uint64_t)operand->imm.value.s;
	} else {
		instruction->flow = indirect;
	}
}

static void set_flow(struct instruction *instruction)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		set_target(instruction, FLOW_BRANCH, FLOW_REFUSE);
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		set_target(instruction, FLOW_JUMP, FLOW_JUMP_INDIRECT);
		break;
	case ZYDIS_CATEGORY_CALL:
		set_target(instruction, FLOW_CALL, FLOW_CALL_INDIRECT);
		break;
	case ZYDIS_CATEGORY_RET:
		instruction->flow = z->mnemonic == ZYDIS_MNEMONIC_RET ? FLOW_RETURN : FLOW_REFUSE;
		break;
	default:
		break;
	}
}

bool instruction_decode(struct instruction *instruction, const uint8_t *code, size_t length,
			uint64_t address)
{
	ZydisDecodedInstruction *z = &instruction->zydis;

	memset(instruction, 0, offsetof(struct instruction, zydis));
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder(), code, length, z,
						 instruction->zydis_operands)))
		return false;
	instruction->address = address;
	instruction->length = z->length;
	instruction->flow = FLOW_ON;
	memcpy(instruction->bytes, code, z->length);
	if (z->mnemonic == ZYDIS_MNEMONIC_SYSCALL) {
		instruction->flow = FLOW_SYSTEM_CALL;
		return true;
	}
	if (is_refused(z)) {
		instruction->flow = FLOW_REFUSE;
		return true;
	}
	instruction->repeats = is_string(z) &&
			       (z->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
						 ZYDIS_ATTRIB_HAS_REPNE));
	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER)
			uses(instruction, general(operand->reg.value));
		else if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			 !add_memory(instruction, operand))
			return true;
	}
	if (z->mnemonic == ZYDIS_MNEMONIC_LEAVE)
		uses(instruction, RBP);
	if (z->mnemonic == ZYDIS_MNEMONIC_CLZERO)
		set_clzero_operand(instruction);
	if (is_stepped(z) || instruction_has_bit_offset(instruction) ||
	    (instruction->repeats && is_string_elsewhere(instruction)))
		instruction->flow = FLOW_STEP;
	else
		set_flow(instruction);
	return true;
}
