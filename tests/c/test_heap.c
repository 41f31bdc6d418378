/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a program see the heap that it asked for, while the real one ends with a huge page? */
#include "check.h"

#include <stdint.h>

#include "heap.h"

#define HUGE ((uint64_t)2 << 20)
#define START ((uint64_t)0x555500001000)

static uint64_t end;

/* What the kernel would do: the heap may not pass `limit`. */
static uint64_t kernel(uint64_t now, uint64_t wanted, uint64_t limit)
{
	return wanted < START || wanted > limit ? now : wanted;
}

/* One brk() from the program's call to what it returns.  *real: where the heap ends. */
static uint64_t call(struct memory *memory, uint64_t wanted, uint64_t *real, uint64_t limit)
{
	uint64_t argument;

	if (heap_enter(memory, wanted, HUGE, &end) == HEAP_ANSWER)
		return end;
	argument = end;
	*real = kernel(*real, argument, limit);
	if (!heap_exit(memory, wanted, argument, *real, &end)) {
		*real = kernel(*real, wanted, limit);
		CHECK_EQUAL(heap_exit(memory, wanted, wanted, *real, &end), 1);
	}
	return end;
}

TEST(small_steps_grow_it_by_huge_pages)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START, wanted = START, none = UINT64_MAX;
	unsigned grown = 0;

	CHECK_EQUAL(call(&memory, 0, &real, none), START);
	for (int i = 0; i < 1000; i++) {
		uint64_t before = real;

		wanted += 33 << 12;
		CHECK_EQUAL(call(&memory, wanted, &real, none), wanted);
		CHECK(real >= wanted && real % HUGE == 0);
		grown += real != before;
		CHECK_EQUAL(call(&memory, 0, &real, none), wanted);
		CHECK_EQUAL(call(&memory, wanted, &real, none), wanted);
	}
	CHECK(grown <= 1000 * (33 << 12) / HUGE + 1);
}

TEST(the_huge_page_that_it_shrinks_into_stays)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START, none = UINT64_MAX, wanted = START + HUGE;

	call(&memory, 0, &real, none);
	call(&memory, START + 3 * HUGE + 4096, &real, none);
	/* What it gets again must be zero: somebody has to clear it. */
	CHECK_EQUAL(heap_enter(&memory, wanted, HUGE, &end), HEAP_SHRINK);
	CHECK_EQUAL(call(&memory, wanted, &real, none), wanted);
	CHECK(real % HUGE == 0 && real - wanted < HUGE);
	CHECK_EQUAL(call(&memory, 0, &real, none), wanted);
	CHECK_EQUAL(heap_enter(&memory, wanted + 4096, HUGE, &end), HEAP_ANSWER);
	CHECK_EQUAL(end, wanted + 4096);
	CHECK_EQUAL(heap_enter(&memory, real, HUGE, &end), HEAP_ANSWER);
}

TEST(where_it_cannot_be_cleared_it_shrinks_exactly)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START, none = UINT64_MAX, wanted = START + HUGE;

	call(&memory, 0, &real, none);
	call(&memory, START + 3 * HUGE, &real, none);
	heap_enter(&memory, wanted, HUGE, &end);
	CHECK_EQUAL(heap_exit(&memory, wanted, wanted, wanted, &end), 1);
	CHECK_EQUAL(end, wanted);
	CHECK_EQUAL(heap_enter(&memory, wanted + 4096, HUGE, &end), HEAP_GROW);
}

TEST(it_has_no_less_than_nothing)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START, none = UINT64_MAX;

	call(&memory, 0, &real, none);
	call(&memory, START + 4096, &real, none);
	CHECK_EQUAL(call(&memory, START, &real, none), START);
	call(&memory, START + 4096, &real, none);
	CHECK_EQUAL(heap_enter(&memory, START - 1, HUGE, &end), HEAP_PASS);
	CHECK_EQUAL(call(&memory, START - 1, &real, none), START + 4096);
}

TEST(a_limit_is_met_exactly)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START, limit = START + 100 * 4096;

	call(&memory, 0, &real, limit);
	CHECK_EQUAL(call(&memory, limit, &real, limit), limit);
	CHECK_EQUAL(real, limit);
	/* Beyond it the program learns that nothing changed. */
	CHECK_EQUAL(call(&memory, limit + 4096, &real, limit), limit);
	CHECK_EQUAL(call(&memory, 0, &real, limit), limit);
	CHECK_EQUAL(call(&memory, START - 4096, &real, limit), limit);
	CHECK_EQUAL(call(&memory, UINT64_MAX, &real, limit), limit);
}

TEST(of_an_unknown_heap_nothing_is_changed)
{
	struct memory memory = { .users = 1 };
	uint64_t real = START + 5 * 4096, none = UINT64_MAX;

	CHECK_EQUAL(heap_enter(&memory, real + 4096, HUGE, &end), HEAP_PASS);
	CHECK_EQUAL(end, real + 4096);
	CHECK_EQUAL(call(&memory, real + 4096, &real, none), START + 6 * 4096);
	CHECK_EQUAL(call(&memory, 0, &real, none), START + 6 * 4096);
}

CHECK_MAIN
