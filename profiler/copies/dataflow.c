/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "dataflow.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "latencies.h"
#include "register_use.h"

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

/* When all registers that it computes with are known. */
static uint16_t read_all(struct flow_state *flow, const struct instruction *instruction)
{
	uint8_t numbers[REGISTERS_MOST];
	const unsigned count = registers_read(instruction, numbers);
	uint16_t value = 0;

	for (unsigned i = 0; i < count; i++)
		value = join(flow, value, read_register(flow, numbers[i]), 0);
	return value;
}

static void note_writers(struct flow_state *flow, const struct instruction *instruction,
			 unsigned index)
{
	uint8_t numbers[REGISTERS_MOST];
	const unsigned count = registers_written(instruction, numbers);

	for (unsigned i = 0; i < count; i++)
		flow->last_writer[numbers[i]] = (uint8_t)index;
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
	const int base = register_number(operand->mem.base), index = register_number(operand->mem.index);
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
		number = register_number(operand->mem.base);
		if (number >= 0)
			value = join(flow, value, read_register(flow, (unsigned)number), 0);
		number = register_number(operand->mem.index);
		if (number >= 0)
			value = join(flow, value, read_register(flow, (unsigned)number), 0);
	}
	return value;
}

/*
 * Its loads, before it computes, or its stores of `value` afterwards.  Returns the value joined
 * with what loads gave.
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

static void write_all(struct flow_state *flow, const struct instruction *instruction,
		      unsigned index, uint16_t value)
{
	uint8_t numbers[REGISTERS_MOST];
	const unsigned count = registers_written(instruction, numbers);

	for (unsigned i = 0; i < count; i++) {
		struct operation *op;

		flow->value[numbers[i]] = value;
		/* Other writes in the block replace it before anything else can see it. */
		if (flow->last_writer[numbers[i]] != index)
			continue;
		op = add(flow, OP_PUT);
		op->to = numbers[i];
		op->a = value;
		op->b = 1;
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
	const bool fenced = instruction_is_fence(z);
	uint16_t value;

	begin_instruction(flow, index);
	if (fenced)
		fence(flow);
	value = read_all(flow, instruction);
	value = load_all(flow, instruction, index, value);
	if (z->mnemonic == ZYDIS_MNEMONIC_LEA)
		value = lea_value(flow, instruction);
	else if (!instruction_is_zero_idiom(instruction))
		value = join(flow, value, 0, latency_of(z, instruction->zydis_operands));
	store_all(flow, instruction, index, value);
	if (instruction->flow == FLOW_BRANCH) {
		struct operation *op = add(flow, OP_BRANCH);

		op->a = value;
		op->b = 0;
	}
	flow->branch = value;
	write_all(flow, instruction, index, value);
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
		note_writers(&flow, &decoded[i], i);
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
