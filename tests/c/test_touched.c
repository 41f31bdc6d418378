/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "check.h"
#include "touched.h"

#include <stdlib.h>

#define ANONYMOUS_FROM UINT64_C(0x100000000)

static int allocations_left;

static void *allocate(size_t bytes)
{
	return allocations_left-- > 0 ? calloc(1, bytes) : NULL;
}

static bool is_anonymous(uint64_t address)
{
	return address >= ANONYMOUS_FROM;
}

static struct touched make(void)
{
	struct touched touched = {
		.allocate = allocate, .release = free, .anonymous = is_anonymous,
		.base_shift = 12, .huge_shift = 21,
	};

	allocations_left = 100;
	CHECK_EQUAL(touched_init(&touched), 0);
	return touched;
}

TEST(pages_count_once)
{
	struct touched touched = make();

	for (int round = 0; round < 2; round++)
		for (uint64_t page = 0; page < 700; page++)
			touched_note(&touched, ANONYMOUS_FROM + (page << 12) + 8);
	touched_note(&touched, 0x400000);
	CHECK_EQUAL(touched.anonymous_pages, 700);
	CHECK_EQUAL(touched.anonymous_regions, 2);
	CHECK_EQUAL(touched.other_pages, 1);
	free(touched.records);
}

TEST(the_table_grows)
{
	struct touched touched = make();
	const uint64_t regions = 5000;

	for (uint64_t region = 0; region < regions; region++)
		touched_note(&touched, ANONYMOUS_FROM + (region << 21));
	for (uint64_t region = 0; region < regions; region++)
		touched_note(&touched, ANONYMOUS_FROM + (region << 21) + 0x3000);
	CHECK_EQUAL(touched.anonymous_pages, 2 * regions);
	CHECK_EQUAL(touched.anonymous_regions, regions);
	CHECK(!touched.failed);
	free(touched.records);
}

TEST(reset_forgets)
{
	struct touched touched = make();

	touched_note(&touched, ANONYMOUS_FROM);
	touched_reset(&touched);
	CHECK_EQUAL(touched.anonymous_pages, 0);
	touched_note(&touched, ANONYMOUS_FROM);
	CHECK_EQUAL(touched.anonymous_pages, 1);
	free(touched.records);
}

TEST(no_memory_is_reported)
{
	struct touched touched = make();

	allocations_left = 0;
	for (uint64_t region = 0; region < 5000; region++)
		touched_note(&touched, ANONYMOUS_FROM + (region << 21));
	CHECK(touched.failed);
	free(touched.records);
}

CHECK_MAIN
