/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls and returns of made-up blocks: through which of them does a walk happen? */
#include "check.h"
#include "stacks.h"

#define MAIN 0x1000u
#define WORK 0x2000u
#define OTHER 0x3000u
#define FAR 0x100000u

static void call(struct stacks *stacks, uint64_t past, uint64_t next)
{
	const struct code_block block = { .past = past, .end = ENDS_CALL };

	stacks_executed(stacks, &block, next);
}

static void give_back(struct stacks *stacks, uint64_t next)
{
	const struct code_block block = { .end = ENDS_RETURN };

	stacks_executed(stacks, &block, next);
}

static void walk(struct stacks *stacks, uint64_t address)
{
	CHECK_EQUAL(stacks_walked(stacks, TLB_BASE, address), 0);
}

/* Is the row's stack made of these return addresses, innermost first? */
static bool is_through(const struct stacks *stacks, size_t row, const uint64_t *addresses,
		       unsigned count)
{
	uint32_t stack = stacks->rows[row].stack;

	for (unsigned i = 0; i < count; i++) {
		if (stack == NO_STACK || stacks->nodes[stack].address != addresses[i])
			return false;
		stack = stacks->nodes[stack].below;
	}
	return stack == NO_STACK;
}

TEST(walks_know_their_callers)
{
	const uint64_t first[] = { MAIN, 0x10 }, called[] = { WORK, MAIN, 0x10 }, outer[] = { 0x10 };
	struct stacks stacks = { 0 };

	stacks_begin(&stacks, 3, 100, first, 2);
	walk(&stacks, 0x2040);
	call(&stacks, WORK, 0x5000);
	walk(&stacks, 0x5004);
	give_back(&stacks, WORK);
	walk(&stacks, 0x2040);
	give_back(&stacks, MAIN);
	walk(&stacks, 0x1004);
	CHECK_EQUAL(stacks.row_count, 3);
	CHECK(is_through(&stacks, 0, first, 2));
	CHECK_EQUAL(stacks.rows[0].walks[TLB_BASE], 2);
	CHECK_EQUAL(stacks.rows[0].walks[TLB_HUGE], 0);
	CHECK_EQUAL(stacks.rows[0].window, 3);
	CHECK(is_through(&stacks, 1, called, 3));
	CHECK(is_through(&stacks, 2, outer, 1));
	stacks_free(&stacks);
}

TEST(frames_that_are_left_at_once_are_gone)
{
	const uint64_t outer[] = { 0x10 };
	struct stacks stacks = { 0 };

	stacks_begin(&stacks, 0, 100, outer, 1);
	call(&stacks, MAIN, 0x2000);
	call(&stacks, WORK, 0x3000);
	call(&stacks, OTHER, 0x4000);
	/* As longjmp() and exceptions do. */
	give_back(&stacks, MAIN);
	walk(&stacks, 0x1004);
	CHECK(is_through(&stacks, 0, outer, 1));
	/* To where nobody called from: as before. */
	give_back(&stacks, 0x7777);
	walk(&stacks, 0x7778);
	CHECK(is_through(&stacks, 1, outer, 1));
	stacks_free(&stacks);
}

TEST(a_call_of_the_next_instruction_is_none)
{
	struct stacks stacks = { 0 };

	stacks_begin(&stacks, 0, 100, NULL, 0);
	call(&stacks, MAIN, MAIN);
	walk(&stacks, MAIN);
	CHECK_EQUAL(stacks.rows[0].stack, NO_STACK);
	stacks_free(&stacks);
}

TEST(deep_recursion_ends_somewhere)
{
	struct stacks stacks = { 0 };

	stacks_begin(&stacks, 0, 100, NULL, 0);
	for (unsigned i = 0; i < STACKS_DEPTH + 100; i++)
		call(&stacks, MAIN + i, WORK);
	walk(&stacks, WORK);
	CHECK_EQUAL(stacks.depth, STACKS_DEPTH);
	for (unsigned i = STACKS_DEPTH + 100; i-- > 1;)
		give_back(&stacks, MAIN + i);
	walk(&stacks, WORK);
	CHECK_EQUAL(stacks.depth, 1);
	CHECK_EQUAL(stacks.row_count, 2);
	stacks_free(&stacks);
}

TEST(many_stacks_are_all_different)
{
	enum { STACKS = 5000 };
	struct stacks stacks = { 0 };

	for (uint32_t window = 0; window < 2; window++) {
		stacks_begin(&stacks, window, 100, NULL, 0);
		for (unsigned i = 0; i < STACKS; i++) {
			call(&stacks, MAIN + i, FAR);
			walk(&stacks, WORK);
			give_back(&stacks, MAIN + i);
		}
	}
	/* Rows are a window's; stacks are kept. */
	CHECK_EQUAL(stacks.row_count, 2 * STACKS);
	CHECK_EQUAL(stacks.node_count, STACKS + 1);
	stacks_begin(&stacks, 2, 101, NULL, 0);
	call(&stacks, MAIN, FAR);
	walk(&stacks, WORK);
	/* Of another process it is another stack. */
	CHECK_EQUAL(stacks.node_count, STACKS + 2);
	stacks_free(&stacks);
}

CHECK_MAIN
