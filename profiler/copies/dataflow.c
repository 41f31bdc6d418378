/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "dataflow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "latencies.h"

/* Numbers of registers in the timing model. */
enum {
	GENERAL = 0,		/* 16 */
	CARRY = 16, OVERFLOW, STATUS,	/* the carry flag, the overflow flag, the others */
	MASK = 24,		/* 8 */
	VECTOR = 32,		/* 32 */
	X87 = 64,		/* all of it, and MMX */
	OTHERS = 65,
	REGISTERS = 66,
};

#define NOT_READ 0xffffu
#define RSP 4
/* Most operations of an instruction: what it reads and joins, references, results. */
#define MOST_OF_INSTRUCTION 64u

/* A block in the making. */
struct flow_state {
	const struct code_block *code;
	const struct instruction *decoded;
	struct operation *operations;
	uint32_t count;
	uint16_t values;			/* used so far */
	uint16_t value[REGISTERS];		/* what each holds; NOT_READ: as when the block began */
	uint8_t last_writer[REGISTERS];		/* instruction */
	uint16_t branch;			/* value of the condition, or of the target */
};

static struct operation *add(struct flow_state *flow, enum operation_kind kind)
{
	struct operation *op = &flow->operations[flow->count++];

	*op = (struct operation){ .kind = (uint8_t)kind };
	return op;
}

static uint16_t new_value(struct flow_state *flow)
{
	return ++flow->values;
}

static uint16_t join(struct flow_state *flow, uint16_t a, uint16_t b, uint8_t cycles)
{
	struct operation *op;

	if (!cycles && (!a || !b || a == b))
		return a ? a : b;
	op = add(flow, OP_JOIN);
	op->a = a;
	op->b = b;
	op->cycles = cycles;
	return op->to = new_value(flow);
}

static uint16_t read_register(struct flow_state *flow, unsigned number)
{
	struct operation *op;

	if (flow->value[number] != NOT_READ)
		return flow->value[number];
	op = add(flow, OP_GET);
	op->a = (uint16_t)number;
	op->to = new_value(flow);
	return flow->value[number] = op->to;
}

/* The model's number of a register; -1: it has none (RIP, segments). */
static int number_of(ZydisRegister name)
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

/* The result depends on nothing. */
static bool is_zero_idiom(const struct instruction *instruction)
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

static const struct { ZydisAccessedFlagsMask flags; int number; } flag_groups[] = {
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

/* Registers that it writes: `each` is called with their numbers. */
static void for_written(const struct instruction *instruction,
			void (*each)(struct flow_state *flow, int number, unsigned index),
			struct flow_state *flow, unsigned index)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;

	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    !is_stack_change(z, operand) && number_of(operand->reg.value) >= 0)
			each(flow, number_of(operand->reg.value), index);
	}
	for (unsigned i = 0; i < FLAG_GROUPS; i++)
		if (flags_written(z) & flag_groups[i].flags)
			each(flow, flag_groups[i].number, index);
}

static void note_writer(struct flow_state *flow, int number, unsigned index)
{
	flow->last_writer[number] = (uint8_t)index;
}

/* When all registers that it computes with are known; `address`: those of its memory operands. */
static uint16_t read_all(struct flow_state *flow, const struct instruction *instruction)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;
	uint16_t value = 0;

	if (is_zero_idiom(instruction))
		return 0;
	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];
		int number;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || is_stack_change(z, operand))
			continue;
		number = number_of(operand->reg.value);
		if (number >= 0 && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ ||
				    merges(z, operand)))
			value = join(flow, value, read_register(flow, (unsigned)number), 0);
	}
	for (unsigned i = 0; i < FLAG_GROUPS; i++)
		if (z->cpu_flags && z->cpu_flags->tested & flag_groups[i].flags)
			value = join(flow, value,
				     read_register(flow, (unsigned)flag_groups[i].number), 0);
	return value;
}

static uint16_t address_value(struct flow_state *flow, const struct memory_operand *operand)
{
	uint16_t value = 0;

	if (operand->base >= 0 && operand->base < REGISTER_RIP)
		value = read_register(flow, (unsigned)operand->base);
	if (operand->index >= 0)
		value = join(flow, value, read_register(flow, (unsigned)operand->index), 0);
	return value;
}

/* LEA computes an address: what its operand's registers hold. */
static uint16_t lea_value(struct flow_state *flow, const struct instruction *instruction)
{
	const ZydisDecodedOperand *operand = &instruction->zydis_operands[1];
	const int base = number_of(operand->mem.base), index = number_of(operand->mem.index);
	uint16_t value = base >= 0 ? read_register(flow, (unsigned)base) : 0;

	return join(flow, value, index >= 0 ? read_register(flow, (unsigned)index) : 0, 1);
}

/* Numbers of an instruction's references in the block. */
static unsigned first_reference(const struct code_block *code, unsigned index)
{
	unsigned i = 0;

	while (i < code->reference_count && code->references[i].instruction < index)
		i++;
	return i;
}

/* A gather's elements have one address value: the vector of indices, and the base. */
static uint16_t element_address(struct flow_state *flow, const struct instruction *instruction)
{
	uint16_t value = 0;

	for (unsigned i = 0; i < instruction->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];
		int number;

		if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		number = number_of(operand->mem.base);
		if (number >= 0)
			value = join(flow, value, read_register(flow, (unsigned)number), 0);
		number = number_of(operand->mem.index);
		if (number >= 0)
			value = join(flow, value, read_register(flow, (unsigned)number), 0);
	}
	return value;
}

struct result {
	struct flow_state *flow;
	uint16_t value;
};

/*
 * Its loads, before it computes, or its stores of `value` afterwards.  Returns the value joined with
 * what loads gave.
 */
static uint16_t access_all(struct flow_state *flow, const struct instruction *instruction,
			   unsigned index, enum reference_kind other, uint16_t value)
{
	const struct code_block *code = flow->code;
	unsigned operand = 0;

	for (unsigned i = first_reference(code, index);
	     i < code->reference_count && code->references[i].instruction == index; i++) {
		struct operation *op;
		uint16_t address;

		if (code->references[i].kind == REFERENCE_LENGTH)
			continue;
		address = operand < instruction->operand_count ?
				  address_value(flow, &instruction->operands[operand]) :
				  element_address(flow, instruction);
		operand++;
		if (code->references[i].kind == other)
			continue;
		op = add(flow, other == REFERENCE_STORE ? OP_LOAD : OP_STORE);
		op->a = address;
		if (other == REFERENCE_STORE) {
			op->b = (uint16_t)i;
			op->to = new_value(flow);
			value = join(flow, value, op->to, 0);
		} else {
			op->b = value;
			op->to = (uint16_t)i;
		}
	}
	return value;
}

static uint16_t load_all(struct flow_state *flow, const struct instruction *instruction,
			 unsigned index, uint16_t value)
{
	return access_all(flow, instruction, index, REFERENCE_STORE, value);
}

static void store_all(struct flow_state *flow, const struct instruction *instruction,
		      unsigned index, uint16_t value)
{
	access_all(flow, instruction, index, REFERENCE_LOAD, value);
}

static void write_value(struct flow_state *flow, int number, unsigned index, uint16_t value)
{
	struct operation *op;

	flow->value[number] = value;
	/* Others in the block take its place before anybody else can see it. */
	if (flow->last_writer[number] != index)
		return;
	op = add(flow, OP_PUT);
	op->to = (uint16_t)number;
	op->a = value;
	op->b = 1;
}

static uint16_t written;	/* by the current instruction: for_written() has no more arguments */

static void write_each(struct flow_state *flow, int number, unsigned index)
{
	write_value(flow, number, index, written);
}

static bool is_fence(const ZydisDecodedInstruction *z)
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

static void fence(struct flow_state *flow)
{
	add(flow, OP_FENCE)->to = new_value(flow);
}

/* cmp and a branch on its flags are one micro-operation. */
static bool is_fused(const struct flow_state *flow, unsigned index)
{
	const ZydisDecodedInstruction *before;

	if (!index || flow->decoded[index].flow != FLOW_BRANCH)
		return false;
	before = &flow->decoded[index - 1].zydis;
	switch (before->mnemonic) {
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
		return true;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_INC:
	case ZYDIS_MNEMONIC_DEC:
	case ZYDIS_MNEMONIC_AND:
		return before->operand_count && flow->decoded[index - 1].operand_count == 0;
	default:
		return false;
	}
}

static void begin_instruction(struct flow_state *flow, unsigned index)
{
	const uint64_t address = flow->decoded[index].address;
	struct operation *op;

	if (is_fused(flow, index))
		return;
	op = add(flow, OP_INSTRUCTION);
	op->to = (uint16_t)address;
	op->a = (uint16_t)(address >> 16);
	op->b = (uint16_t)(address >> 32);
}

static void add_instruction(struct flow_state *flow, unsigned index)
{
	const struct instruction *instruction = &flow->decoded[index];
	const ZydisDecodedInstruction *z = &instruction->zydis;
	const bool fenced = is_fence(z);
	uint16_t value;

	begin_instruction(flow, index);
	if (fenced)
		fence(flow);
	value = read_all(flow, instruction);
	value = load_all(flow, instruction, index, value);
	if (z->mnemonic == ZYDIS_MNEMONIC_LEA)
		value = lea_value(flow, instruction);
	else if (!is_zero_idiom(instruction))
		value = join(flow, value, 0, latency_of(z, instruction->zydis_operands));
	store_all(flow, instruction, index, value);
	if (instruction->flow == FLOW_BRANCH) {
		struct operation *op = add(flow, OP_BRANCH);

		op->a = value;
		op->b = 0;
	}
	flow->branch = value;
	written = value;
	for_written(instruction, write_each, flow, index);
	if (fenced)
		fence(flow);
}

static bool is_indirect(const struct code_block *code)
{
	/* Returns are predicted by a stack of their own. */
	return code->end == ENDS_INDIRECT_JUMP || code->end == ENDS_INDIRECT_CALL;
}

struct timed_block *dataflow_of(const struct code_block *code, const struct instruction *decoded)
{
	static struct operation operations[CODE_BLOCK_MOST_INSTRUCTIONS * MOST_OF_INSTRUCTION +
					   8 * CODE_BLOCK_MOST_REFERENCES];
	struct flow_state flow = { .code = code, .decoded = decoded, .operations = operations };
	struct timed_block *timed;
	size_t bytes;

	for (unsigned i = 0; i < REGISTERS; i++)
		flow.value[i] = NOT_READ;
	for (unsigned i = 0; i < code->instruction_count; i++)
		for_written(&decoded[i], note_writer, &flow, i);
	for (unsigned i = 0; i < code->instruction_count; i++)
		add_instruction(&flow, i);
	bytes = flow.count * sizeof(*operations);
	timed = malloc(sizeof(*timed) + sizeof(*timed->block) + bytes);
	if (!timed)
		return NULL;
	timed->block = (struct block *)(timed + 1);
	timed->block->count = timed->block->capacity = flow.count;
	memcpy(timed->block->operations, operations, bytes);
	timed->repeats = false;
	for (unsigned i = 0; i < code->reference_count; i++)
		timed->repeats = timed->repeats || code->references[i].kind == REFERENCE_LENGTH;
	timed->not_taken = (struct departure){
		.operations = flow.count,
		.branches = code->end == ENDS_BRANCH,
		.indirect = is_indirect(code),
		.target_value = flow.branch,
	};
	timed->taken = timed->not_taken;
	timed->taken.taken = true;
	return timed;
}
