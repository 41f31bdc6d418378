/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code that is made while it is executed, step by step, and what it did. */
#ifndef TLBCOST_TEST_GENERATED_RUN_H
#define TLBCOST_TEST_GENERATED_RUN_H

#include <stdio.h>
#include <stdlib.h>

#include "generated.h"
#include "step.h"
#include "watcher.h"

#define LAST_CALL 9999
#define MOST_FORMS 65536u
#define EXECUTED 255u		/* not a reference: the instruction was executed */

struct made {
	uint64_t instruction, address, bytes, kind;
};

struct list {
	struct made *all;
	size_t count, capacity;
};

/* What was covered: mnemonic, encoding, width and kinds of operands. */
struct forms {
	unsigned long instructions, references;
	unsigned count;
	uint64_t seen[MOST_FORMS];
	bool mnemonics[ZYDIS_MNEMONIC_MAX_VALUE + 1];
};

struct state {
	struct user_regs_struct registers;
	struct xstate vectors;
	uint8_t arena[ARENA_BYTES];
};

struct run {
	struct maker maker;
	struct copy copy;
	struct state start, now;
	struct list list;
	struct forms *forms;
	uint8_t code[CODE_BYTES];
	uint64_t pointers[512];
};

static inline void list_add(struct list *list, struct made made)
{
	if (list->count == list->capacity) {
		list->capacity = list->capacity ? 2 * list->capacity : 4096;
		list->all = realloc(list->all, list->capacity * sizeof(*list->all));
		if (!list->all)
			abort();
	}
	list->all[list->count++] = made;
}

static inline void list_add_all(struct list *list, uint64_t instruction,
				const struct code_reference *references, unsigned count,
				const uint64_t *addresses)
{
	list_add(list, (struct made){ instruction, 0, 0, EXECUTED });
	for (unsigned i = 0; i < count; i++) {
		struct made made = { instruction, addresses[i], references[i].bytes,
				     references[i].kind };

		if (made.kind == REFERENCE_LENGTH || !made.address)
			continue;
		if (i + 1 < count && references[i + 1].kind == REFERENCE_LENGTH)
			made.bytes = addresses[i + 1];
		list_add(list, made);
	}
}

static inline bool list_executed(void *context, const struct code_block *block,
				 const uint64_t *addresses, uint64_t next)
{
	unsigned begin = 0;

	(void)next;
	for (unsigned i = 0; i < block->instruction_count; i++) {
		unsigned end = begin;

		while (end < block->reference_count && block->references[end].instruction == i)
			end++;
		list_add_all(context, block->instructions[i].address, block->references + begin,
			     end - begin, addresses + begin);
		begin = end;
	}
	return true;
}

static inline void list_show(const char *what, const struct list *list, size_t i)
{
	if (i < list->count)
		printf("#  %s %zu: %#llx: %#llx %llu %llu\n", what, i,
		       (unsigned long long)list->all[i].instruction,
		       (unsigned long long)list->all[i].address,
		       (unsigned long long)list->all[i].bytes,
		       (unsigned long long)list->all[i].kind);
}

/* How many the two have in common from the start. */
static inline size_t list_common(const struct list *a, const struct list *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && memcmp(&a->all[i], &b->all[i], sizeof(struct made)) == 0)
		i++;
	return i;
}

static inline void list_show_both(const struct list *stepped, const struct list *followed, size_t i)
{
	for (size_t k = i > 2 ? i - 2 : 0; k < i + 3; k++) {
		list_show("stepped", stepped, k);
		list_show("followed", followed, k);
	}
}

static inline int state_get(const struct copy *copy, uint64_t world, struct state *state)
{
	return ptrace(PTRACE_GETREGS, copy->pid, NULL, &state->registers) < 0 ||
	       traced_get(copy, &state->vectors) < 0 ||
	       copy_read(copy, world + ARENA, state->arena, ARENA_BYTES) < 0 ? -1 : 0;
}

static inline int state_set(const struct copy *copy, uint64_t world, struct state *state)
{
	return ptrace(PTRACE_SETREGS, copy->pid, NULL, &state->registers) < 0 ||
	       traced_set(copy, &state->vectors) < 0 ||
	       copy_write(copy, world + ARENA, state->arena, ARENA_BYTES) < 0 ? -1 : 0;
}

/* Of the XSAVE image: not where the last x87 instruction was, nor what is in use. */
static inline bool is_compared(size_t byte)
{
	return (byte < 6 || byte >= 24) && (byte < 416 || byte >= 576);
}

static inline void show_instruction(const char *what, const struct instruction *it)
{
	printf("# %s: %s:", what, ZydisMnemonicGetString(it->zydis.mnemonic));
	for (unsigned i = 0; i < it->length; i++)
		printf(" %02x", it->bytes[i]);
	printf("\n");
}

/* What an instruction may do with a byte of memory. */
enum { READ = 1, WRITTEN = 2 };

static inline void mark(const struct run *run, const struct list *list, size_t from, uint8_t *marks)
{
	memset(marks, 0, ARENA_BYTES);
	for (size_t i = from; i < list->count; i++) {
		const struct made *made = &list->all[i];
		const uint64_t at = made->address - run->maker.world - ARENA;
		const uint8_t how = made->kind == REFERENCE_LOAD  ? READ :
				    made->kind == REFERENCE_STORE ? WRITTEN : READ | WRITTEN;

		if (made->kind == EXECUTED)
			continue;
		for (uint64_t k = 0; k < made->bytes; k++)
			if (at + k < ARENA_BYTES)
				marks[at + k] |= how;
	}
}

/* The same again, where all that it does not read is different. */
static inline bool is_complete(struct run *run, const struct instruction *it, struct state *before,
			       size_t from)
{
	static uint8_t marks[ARENA_BYTES];
	static struct state other, after;
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	struct user_regs_struct registers = before->registers;
	const struct state *now = &run->now;
	bool right = true;

	mark(run, &run->list, from, marks);
	other = *before;
	for (size_t i = 0; i < ARENA_BYTES; i++)
		other.arena[i] = (uint8_t)(marks[i] & READ ? other.arena[i] : ~other.arena[i]);
	if (state_set(&run->copy, run->maker.world, &other) < 0 ||
	    step(&run->copy, it, &registers, addresses) != 0 ||
	    state_get(&run->copy, run->maker.world, &after) < 0 ||
	    state_set(&run->copy, run->maker.world, &run->now) < 0) {
		printf("# it does not come to its end again\n");
		return false;
	}
	for (size_t i = 0; i < ARENA_BYTES && right; i++) {
		const bool kept = now->arena[i] == before->arena[i] &&
				  after.arena[i] == other.arena[i];

		right = kept || (marks[i] & WRITTEN && now->arena[i] == after.arena[i]);
		if (!right)
			printf("# byte %#zx of the arena, which is %u\n", i, marks[i]);
	}
	if (memcmp(&after.registers, &now->registers, sizeof(after.registers)) != 0) {
		printf("# registers\n");
		right = false;
	}
	for (size_t i = 0; i < now->vectors.bytes && right; i++)
		if (is_compared(i) && now->vectors.image[i] != after.vectors.image[i]) {
			printf("# vectors, byte %zu\n", i);
			right = false;
		}
	return right;
}

/* A trap flag that it loads would be ours; and what is not aligned must go on. */
static inline bool loads_bad_flags(const struct run *run, const struct instruction *it)
{
	const uint64_t at = run->now.registers.rsp - run->maker.world - ARENA;

	return (it->zydis.mnemonic == ZYDIS_MNEMONIC_POPF ||
		it->zydis.mnemonic == ZYDIS_MNEMONIC_POPFQ) &&
	       (at >= ARENA_BYTES - 8 || run->now.arena[at + 1] & 0x41 || run->now.arena[at + 2]);
}

static inline void count_form(struct forms *forms, const struct instruction *it)
{
	uint64_t form = it->zydis.mnemonic * 8u + it->zydis.encoding;

	form = form * 8 + it->zydis.operand_width / 16;
	form = form * 2 + (it->zydis.address_width == 32);
	for (unsigned i = 0; i < it->zydis.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &it->zydis_operands[i];

		form = form * 64 + operand->type * 8u;
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
			form += (operand->mem.base != 0) + 2u * (operand->mem.index != 0) +
				4u * (operand->mem.segment == ZYDIS_REGISTER_FS);
		else if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER)
			form += ZydisRegisterGetClass(operand->reg.value) % 8u;
	}
	form++;
	forms->instructions++;
	forms->mnemonics[it->zydis.mnemonic] = true;
	for (uint64_t i = form * UINT64_C(0x9e3779b97f4a7c15) >> 48;; i++) {
		if (forms->seen[i % MOST_FORMS] == form || forms->count == MOST_FORMS - 1)
			return;
		if (forms->seen[i % MOST_FORMS] == 0) {
			forms->seen[i % MOST_FORMS] = form;
			forms->count++;
			return;
		}
	}
}

static inline unsigned forms_mnemonics(const struct forms *forms)
{
	unsigned count = 0;

	for (unsigned i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++)
		count += forms->mnemonics[i];
	return count;
}

/* Returns 1 if it was executed; 0 if it cannot be; -1 if it is wrong, or the child is lost. */
static inline int execute_bytes(struct run *run, const uint8_t *bytes)
{
	static struct state before;
	struct user_regs_struct registers = run->now.registers;
	const uint64_t at = registers.rip, offset = at - run->maker.world;
	struct code_reference references[STEP_MOST_REFERENCES];
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	const size_t from = run->list.count;
	struct instruction it;
	int rc;

	if (offset > CALL_AT - 64 || !instruction_decode(&it, bytes, 16, at) ||
	    loads_bad_flags(run, &it))
		return 0;
	before = run->now;
	if (copy_write(&run->copy, at, bytes, it.length) < 0)
		return -1;
	rc = step(&run->copy, &it, &registers, addresses);
	if (rc < 0 || (rc > 0 && state_set(&run->copy, run->maker.world, &before) < 0)) {
		show_instruction("lost", &it);
		return -1;
	}
	if (rc > 0)
		return 0;
	memcpy(run->code + offset, bytes, it.length);
	list_add_all(&run->list, at, references, step_references(&it, references), addresses);
	if (state_get(&run->copy, run->maker.world, &run->now) < 0)
		return -1;
	if (!is_complete(run, &it, &before, from)) {
		show_instruction("references", &it);
		for (size_t i = from; i < run->list.count; i++)
			list_show("reference", &run->list, i);
		return -1;
	}
	count_form(run->forms, &it);
	run->forms->references += run->list.count - from - 1;
	return 1;
}

#endif
