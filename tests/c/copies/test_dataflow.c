/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86-64 instructions on a core with round numbers: what do chains of them take? */
#include "check.h"
#include "dataflow.h"
#include "string_lines.h"
#include "timing.h"

#include <string.h>

#define TIMES 200u
#define MOST_REFERENCES 16u

/* Instructions from label to label of this program; they are decoded, and never executed. */
#define CODE(name, text)                                                     \
	extern const uint8_t name[], name##_past[];                          \
	__asm__(".section .rodata\n" #name ":\n" text "\n" #name "_past:\n"  \
		".text\n")

struct decoded_block {
	struct code_block code;
	struct instruction decoded[CODE_BLOCK_MOST_INSTRUCTIONS];
	struct code_instruction instructions[CODE_BLOCK_MOST_INSTRUCTIONS];
	struct code_reference references[CODE_BLOCK_MOST_REFERENCES];
};

static void add_references(struct decoded_block *block, uint16_t index)
{
	const struct instruction *instruction = &block->decoded[index];

	for (unsigned i = 0; i < instruction->operand_count; i++) {
		block->references[block->code.reference_count++] = (struct code_reference){
			index, instruction->operands[i].bytes, instruction->operands[i].kind
		};
		if (instruction->repeats)
			block->references[block->code.reference_count++] =
				(struct code_reference){ index, 0, REFERENCE_LENGTH };
	}
}

static enum block_end end_of(const struct instruction *last)
{
	switch (last->flow) {
	case FLOW_BRANCH: return ENDS_BRANCH;
	case FLOW_JUMP: return ENDS_JUMP;
	case FLOW_CALL: return ENDS_CALL;
	case FLOW_RETURN: return ENDS_RETURN;
	case FLOW_JUMP_INDIRECT: return ENDS_INDIRECT_JUMP;
	case FLOW_CALL_INDIRECT: return ENDS_INDIRECT_CALL;
	default: return ENDS_CUT;
	}
}

/* The block that the translator would make of this code. */
static struct decoded_block *decode(const uint8_t *start, const uint8_t *past)
{
	struct decoded_block *block = calloc(1, sizeof(*block));
	uint8_t count = 0;

	for (const uint8_t *at = start; at < past; at += block->decoded[count++].length) {
		CHECK(instruction_decode(&block->decoded[count], at, (size_t)(past - at),
					 (uintptr_t)at));
		add_references(block, count);
		block->instructions[count] = (struct code_instruction){
			(uintptr_t)at, block->decoded[count].length
		};
	}
	block->code.address = (uintptr_t)start;
	block->code.past = (uintptr_t)past;
	block->code.instruction_count = count;
	block->code.instructions = block->instructions;
	block->code.references = block->references;
	block->code.end = (uint8_t)end_of(&block->decoded[count - 1]);
	return block;
}

/* Cycles for each of many executions in a row, in hundredths. */
static uint64_t hundredths(const uint8_t *start, const uint8_t *past,
			   const uint64_t addresses[MOST_REFERENCES])
{
	const struct timing_config config = plain_config();
	struct decoded_block *block = decode(start, past);
	struct timed_block *timed = dataflow_of(&block->code, block->decoded);
	struct rig *rig = make_rig(&config, false);
	static struct branches branches;
	static struct outcomes outcomes;
	ticks warm = 0;

	branches_init(&branches);
	for (unsigned i = 0; i < 2 * TIMES; i++) {
		if (i == TIMES)
			warm = all_left(rig);
		timed->taken.target = block->code.address;
		block_predict(timed->block, &timed->taken, &branches, &outcomes);
		block_run(timed->block, &timed->taken, &outcomes, addresses, &rig->core, 1);
	}
	warm = all_left(rig) - warm;
	drop_rig(rig);
	free(timed);
	free(block);
	return warm * 100 / TICKS_PER_CYCLE / TIMES;
}

/* Is it this number of cycles, but for the beginning and the end? */
static bool takes(const uint8_t *start, const uint8_t *past, uint64_t expected)
{
	static const uint64_t addresses[MOST_REFERENCES] = {
		0x10000, 0x10040, 0x10080, 0x100c0, 0x10100, 0x10140, 0x10180, 0x101c0,
		0x10200, 0x10240, 0x10280, 0x102c0, 0x10300, 0x10340, 0x10380, 0x103c0,
	};
	const uint64_t found = hundredths(start, past, addresses);

	if (found + 10 >= expected && found <= expected + 10)
		return true;
	printf("# %llu hundredths of a cycle, expected %llu\n", (unsigned long long)found,
	       (unsigned long long)expected);
	return false;
}

#define TAKES(name, cycles) CHECK(takes(name, name##_past, (uint64_t)((cycles) * 100)))

CODE(multiply, "imul %rax, %rax");
CODE(multiply_twice, "imul %rax, %rbx\n imul %rbx, %rax");
CODE(independent, "add $1, %rax\n add $1, %rbx\n add $1, %rcx\n add $1, %rdx");
CODE(dependent, "add %rdx, %rax\n add %rax, %rbx\n add %rbx, %rcx\n add %rcx, %rdx");
CODE(moves, "mov %rax, %rbx\n mov %rbx, %rcx\n mov %rcx, %rax\n add $1, %rax");

TEST(chains_take_their_latencies)
{
	TAKES(multiply, 3);
	TAKES(multiply_twice, 6);
	TAKES(dependent, 4);
}

TEST(independent_instructions_take_the_width)
{
	TAKES(independent, 1);
}

TEST(moves_are_renamed)
{
	TAKES(moves, 1);
}

CODE(zeroed, "xor %eax, %eax\n imul %rax, %rax");
CODE(zeroed_vector, "pxor %xmm0, %xmm0\n mulsd %xmm0, %xmm0");
CODE(zeroed_avx, "vpxor %xmm1, %xmm1, %xmm0\n vmulpd %ymm0, %ymm0, %ymm0");
CODE(all_ones, "vpcmpeqd %ymm0, %ymm0, %ymm0\n vmulpd %ymm0, %ymm0, %ymm0");
CODE(not_zeroed, "xor %al, %al\n imul %rax, %rax");
CODE(two_registers, "xor %ebx, %eax\n imul %rax, %rax");

TEST(zero_idioms_break_chains)
{
	TAKES(zeroed, .5);
	TAKES(zeroed_vector, .5);
	TAKES(zeroed_avx, .5);
	TAKES(all_ones, .5);
	/* A byte of it is cleared, the rest is read. */
	TAKES(not_zeroed, 4);
	TAKES(two_registers, 4);
}

CODE(byte_write, "imul %rax, %rax\n mov $1, %al");
CODE(word_write, "imul %rax, %rax\n mov $1, %ax");
CODE(double_write, "imul %rax, %rax\n mov $1, %eax");
CODE(scalar_merge, "sqrtsd %xmm1, %xmm0\n mulsd %xmm0, %xmm0");
CODE(convert_merge, "cvtsi2sd %rax, %xmm0");
CODE(convert_zeroed, "pxor %xmm0, %xmm0\n cvtsi2sd %rax, %xmm0");
CODE(scalar_load, "movsd (%rdi), %xmm0\n mulsd %xmm0, %xmm0");
CODE(packed, "sqrtpd %xmm1, %xmm0\n mulpd %xmm0, %xmm0");

TEST(parts_of_registers_merge)
{
	TAKES(byte_write, 3);
	TAKES(word_write, 3);
	TAKES(double_write, .5);
	TAKES(scalar_merge, 22);
	TAKES(convert_merge, 5);
	TAKES(convert_zeroed, .5);
	TAKES(scalar_load, .5);
	TAKES(packed, .5);
}

CODE(chase, "mov (%rax), %rax");
CODE(chase_by_index, "mov (%rdi,%rax,8), %rax");
CODE(loads, "mov (%rdi), %rax\n mov (%rsi), %rbx");
CODE(load_operand, "add (%rdi), %rax");
CODE(load_vector, "movq (%rdi), %xmm0\n addpd %xmm0, %xmm1");
CODE(to_general, "movq %xmm0, %rax\n movq %rax, %xmm0");
CODE(between_vectors, "movq %xmm0, %xmm1\n movq %xmm1, %xmm0\n paddd %xmm0, %xmm0");

TEST(loads_take_the_cache)
{
	TAKES(chase, 4);
	TAKES(chase_by_index, 4);
	TAKES(loads, .5);
	/* The load is not part of the chain. */
	TAKES(load_operand, 1);
	TAKES(load_vector, 4);
	TAKES(to_general, 6);
	TAKES(between_vectors, 1);
}

CODE(counted, "add %rcx, %rax\n add %rcx, %rbx\n add %rcx, %rdx\n dec %rdi\n jnz counted");
CODE(compared, "cmp %rcx, %rax\n jne compared");
CODE(not_fused, "add %rcx, %rax\n add %rcx, %rbx\n shr %rdi\n jnz not_fused");

TEST(compares_fuse_with_branches)
{
	TAKES(counted, 1);
	TAKES(compared, .25);
	TAKES(not_fused, 1);
}

CODE(carries, "adc $0, %rax\n adc $0, %rbx");
CODE(carry_kept, "inc %rax\n adc $0, %rbx");
CODE(flags_cut, "imul %rax, %rax\n cmp %rcx, %rdx\n adc $0, %rsi");

TEST(flags_are_values)
{
	TAKES(carries, 2);
	/* INC leaves the carry alone. */
	TAKES(carry_kept, 1);
	TAKES(flags_cut, 3);
}

/* One store a cycle. */
CODE(pushes, "push %rax\n pop %rbx\n pop %rcx\n pop %rdx");
CODE(stack_moved, "sub $8, %rsp\n add $8, %rsp");

TEST(the_stack_pointer_is_renamed)
{
	TAKES(pushes, 1);
	TAKES(stack_moved, 2);
}

CODE(address, "lea 8(%rax,%rbx,4), %rax");
CODE(selected, "cmp %rcx, %rdx\n cmovne %rbx, %rax");
CODE(merged_by_mask, "vmulpd %zmm1, %zmm2, %zmm0{%k1}");
CODE(zeroed_by_mask, "vmulpd %zmm1, %zmm2, %zmm0{%k1}{z}");
CODE(fused_multiply, "vfmadd231pd %ymm1, %ymm2, %ymm0");
CODE(carryless, "pclmulqdq $0, %xmm1, %xmm0");

TEST(results_wait_for_all_inputs)
{
	TAKES(address, 1);
	TAKES(selected, 1);
	TAKES(merged_by_mask, 4);
	TAKES(zeroed_by_mask, .25);
	TAKES(fused_multiply, 4);
	TAKES(carryless, 4);
}

CODE(indirect, "jmp *%rax");
CODE(through_memory, "call *(%rdi)");

static void check_target(const uint8_t *start, const uint8_t *past)
{
	struct decoded_block *block = decode(start, past);
	struct timed_block *timed = dataflow_of(&block->code, block->decoded);

	CHECK(timed->taken.indirect);
	CHECK(timed->taken.target_value != 0);
	CHECK_EQUAL(timed->taken.branches, 0);
	free(timed);
	free(block);
}

TEST(targets_are_values)
{
	check_target(indirect, indirect_past);
	check_target(through_memory, through_memory_past);
}

/* The kinds of operations of one block, in order. */
static unsigned operations(const uint8_t *start, const uint8_t *past, enum operation_kind kind)
{
	struct decoded_block *block = decode(start, past);
	struct timed_block *timed = dataflow_of(&block->code, block->decoded);
	unsigned found = 0;

	for (uint32_t i = 0; i < timed->block->count; i++)
		found += timed->block->operations[i].kind == kind;
	free(timed);
	free(block);
	return found;
}

#define HAS(name, kind) operations(name, name##_past, kind)

CODE(locked, "lock incq (%rdi)");
CODE(exchanged, "xchg %rax, (%rdi)");
CODE(added, "incq (%rdi)");
CODE(exchanged_registers, "xchg %rax, %rbx");
CODE(fenced, "mfence");

TEST(locks_are_fences)
{
	CHECK(HAS(locked, OP_FENCE) > 0);
	CHECK(HAS(exchanged, OP_FENCE) > 0);
	CHECK(HAS(fenced, OP_FENCE) > 0);
	CHECK_EQUAL(HAS(added, OP_FENCE), 0);
	CHECK_EQUAL(HAS(exchanged_registers, OP_FENCE), 0);
	CHECK_EQUAL(HAS(added, OP_LOAD), 1);
	CHECK_EQUAL(HAS(added, OP_STORE), 1);
}

CODE(copied, "rep movsb");
CODE(filled, "rep stosq");
CODE(largest, "vmovupd (%rdi), %zmm0\n vmovupd %zmm0, (%rsi)");

TEST(strings_load_and_store)
{
	CHECK_EQUAL(HAS(copied, OP_LOAD), 1);
	CHECK_EQUAL(HAS(copied, OP_STORE), 1);
	CHECK_EQUAL(HAS(filled, OP_LOAD), 0);
	CHECK_EQUAL(HAS(filled, OP_STORE), 1);
	CHECK_EQUAL(HAS(largest, OP_LOAD), 1);
	CHECK_EQUAL(HAS(largest, OP_STORE), 1);
}

/* Of a string of this many lines that are in no cache. */
static ticks string_time(const uint8_t *start, const uint8_t *past, uint64_t lines)
{
	const struct timing_config config = plain_config();
	struct decoded_block *block = decode(start, past);
	const uint64_t addresses[4] = { 1 << 20, lines * 64, 1 << 24, lines * 64 };
	struct timed_block *timed = dataflow_of(&block->code, block->decoded);
	struct rig *rig = make_rig(&config, false);
	static struct outcomes outcomes;
	ticks time;

	CHECK(timed->repeats);
	block_run(timed->block, &timed->not_taken, &outcomes, addresses, &rig->core, 1);
	string_lines_run(&block->code, addresses, &rig->core, 1);
	time = all_left(rig);
	CHECK_EQUAL(rig->core.stores, lines);
	drop_rig(rig);
	free(timed);
	free(block);
	return time;
}

TEST(strings_access_all_their_lines)
{
	/* Streams are prefetched: a store a cycle remains. */
	const ticks copied_time = string_time(copied, copied_past, 1024);

	CHECK(copied_time > 1024 * CYCLES(1));
	CHECK(string_time(copied, copied_past, 2048) > copied_time * 19 / 10);
	CHECK(string_time(filled, filled_past, 1024) > 1024 * CYCLES(1));
	CHECK(string_time(copied, copied_past, 1) < CYCLES(500));
}

CODE(through_stack, "mov %rax, (%rdi)\n mov (%rdi), %rax");

TEST(stores_are_forwarded)
{
	const uint64_t addresses[MOST_REFERENCES] = { 0x10000, 0x10000 };

	/* The loaded value waits for the stored one: a chain through memory. */
	CHECK(hundredths(through_stack, through_stack_past, addresses) >= 390);
}

CHECK_MAIN
