/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is what a stepped instruction accesses what the manual says, and is it executed to its end? */
#include "check.h"

#include "step.h"
#include "traced.h"

#define MEMORY (WORLD_LOW + ARENA + 0x1000)
#define STACK (WORLD_LOW + ARENA + 0x2000)

struct expected {
	const char *text, *code;
	size_t length;
	uint64_t rax, rcx;
	unsigned count;
	struct {
		uint64_t address, bytes;
		int kind;
	} all[4];
};

#define CODE(s) s, sizeof(s) - 1

enum { LOAD = REFERENCE_LOAD, STORE = REFERENCE_STORE, MODIFY = REFERENCE_MODIFY };

/* RBX, RSI and RDI point to the memory, RBP has the stack's middle. */
static const struct expected expectations[] = {
	{ "mov rax,[rbx+8]", CODE("\x48\x8b\x43\x08"), 0, 0, 1, { { MEMORY + 8, 8, LOAD } } },
	{ "add [rbx+rcx*4],eax", CODE("\x01\x04\x8b"), 0, 3, 1, { { MEMORY + 12, 4, MODIFY } } },
	{ "mov eax,[rip+0xff9]: its own page", CODE("\x8b\x05\xfa\x0f\x00\x00"), 0, 0, 1,
	  { { WORLD_LOW + 0x1000, 4, LOAD } } },
	{ "bts [rbx],rax: 100 bits on", CODE("\x48\x0f\xab\x03"), 100, 0, 1,
	  { { MEMORY + 8, 8, MODIFY } } },
	{ "bt [rbx],eax: one bit back", CODE("\x0f\xa3\x03"), 0xffffffff, 0, 1,
	  { { MEMORY - 4, 4, LOAD } } },
	{ "xlat", CODE("\xd7"), 0xabcd12, 0, 1, { { MEMORY + 0x12, 1, LOAD } } },
	{ "rep movsb of 5", CODE("\xf3\xa4"), 0, 5, 2,
	  { { MEMORY, 5, STORE }, { MEMORY, 5, LOAD } } },
	{ "rep stosd of none", CODE("\xf3\xab"), 0, 0, 1, { { MEMORY, 0, STORE } } },
	{ "rep lodsq of 2 with 32-bit addresses", CODE("\x67\xf3\x48\xad"), 0, 2, 1,
	  { { MEMORY, 16, LOAD } } },
	{ "enter 16,3", CODE("\xc8\x10\x00\x03"), 0, 0, 2,
	  { { STACK - 32, 32, STORE }, { STACK - 16, 16, LOAD } } },
	{ "leave", CODE("\xc9"), 0, 0, 1, { { STACK, 8, LOAD } } },
	{ "pushfq", CODE("\x9c"), 0, 0, 1, { { STACK - 8, 8, STORE } } },
	{ "mov rax,fs:[0x10]", CODE("\x64\x48\x8b\x04\x25\x10\x00\x00\x00"), 0, 0, 1,
	  { { WORLD_LOW + ARENA + 0x810, 8, LOAD } } },
};

static bool has_world;

static int start(struct copy *copy, struct user_regs_struct *registers, const char *code,
		 size_t length)
{
	memcpy((void *)(uintptr_t)WORLD_LOW, code, length);
	registers->rbx = registers->rsi = registers->rdi = MEMORY;
	registers->rbp = registers->rsp = STACK;
	return traced_start(copy, WORLD_LOW, registers);
}

TEST(where_stepped_instructions_access_memory)
{
	if (!has_world)
		CHECK_SKIP("its addresses are in use");
	for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		const struct expected *expected = &expectations[i];
		struct user_regs_struct registers = traced_registers(WORLD_LOW);
		struct code_reference references[STEP_MOST_REFERENCES];
		uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
		const int failures = check_failures;
		struct instruction it;
		struct copy copy;
		unsigned count;

		registers.rax = expected->rax;
		registers.rcx = expected->rcx;
		CHECK_EQUAL(start(&copy, &registers, expected->code, expected->length), 0);
		CHECK(instruction_decode(&it, (const uint8_t *)expected->code, expected->length,
					 WORLD_LOW));
		CHECK_EQUAL(step(&copy, &it, &registers, addresses), 0);
		CHECK_EQUAL(registers.rip, WORLD_LOW + expected->length);
		count = step_references(&it, references);
		CHECK_EQUAL(count, expected->count * (it.repeats ? 2u : 1u));
		for (unsigned k = 0; k < expected->count; k++) {
			const unsigned at = it.repeats ? 2 * k : k;

			CHECK_EQUAL(addresses[at], expected->all[k].address);
			CHECK_EQUAL(references[at].kind, expected->all[k].kind);
			CHECK_EQUAL(it.repeats ? addresses[at + 1] : references[at].bytes,
				    expected->all[k].bytes);
		}
		if (check_failures > failures)
			printf("# %s\n", expected->text);
		copy_kill(&copy);
	}
}

/* The processor sets it for the step; the program must not see it. */
TEST(the_trap_flag_is_not_pushed)
{
	struct user_regs_struct registers = traced_registers(WORLD_LOW);
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 }, flags = 0;
	struct instruction it;
	struct copy copy;

	if (!has_world)
		CHECK_SKIP("its addresses are in use");
	CHECK_EQUAL(start(&copy, &registers, "\x9c", 1), 0);
	CHECK(instruction_decode(&it, (const uint8_t *)"\x9c", 1, WORLD_LOW));
	CHECK_EQUAL(step(&copy, &it, &registers, addresses), 0);
	CHECK_EQUAL(copy_read(&copy, registers.rsp, &flags, sizeof(flags)), 0);
	CHECK_EQUAL(flags, 0x202);
	copy_kill(&copy);
}

TEST(a_signal_instead)
{
	struct user_regs_struct registers = traced_registers(WORLD_LOW);
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	struct instruction it;
	struct copy copy;

	if (!has_world)
		CHECK_SKIP("its addresses are in use");
	/* mov al,[8] */
	CHECK_EQUAL(start(&copy, &registers, "\x8a\x04\x25\x08\x00\x00\x00", 7), 0);
	CHECK(instruction_decode(&it, (const uint8_t *)"\x8a\x04\x25\x08\x00\x00\x00", 7, WORLD_LOW));
	CHECK_EQUAL(step(&copy, &it, &registers, addresses), SIGSEGV);
	CHECK_EQUAL(addresses[0], 8);
	copy_kill(&copy);
}


int main(void)
{
	has_world = traced_map(WORLD_LOW) == 0;
	return check_run();
}
