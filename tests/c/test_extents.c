/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "check.h"
#include "extents.h"

#include <stdlib.h>
#include <string.h>

#define SPACE 200u

static int allocations_left;
static uint64_t removed_bytes[4];

static void *allocate(size_t bytes)
{
	return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void removed(uint32_t mapping, uint64_t bytes)
{
	removed_bytes[mapping] += bytes;
}

static struct extents make(int allocations)
{
	allocations_left = allocations;
	memset(removed_bytes, 0, sizeof(removed_bytes));
	return (struct extents){
		.allocate = allocate, .release = free, .removed = removed,
	};
}

static struct extent part(uint64_t start, uint64_t end, uint32_t flags)
{
	return (struct extent){ .start = start, .end = end, .flags = flags };
}

TEST(the_later_one_has_the_address)
{
	struct extents extents = make(10);

	extents_add(&extents, part(10, 50, 1));
	extents_add(&extents, part(20, 30, 2));
	CHECK_EQUAL(extents.count, 3);
	CHECK_EQUAL(extents_find(&extents, 10)->flags, 1);
	CHECK_EQUAL(extents_find(&extents, 20)->flags, 2);
	CHECK_EQUAL(extents_find(&extents, 30)->flags, 1);
	CHECK(!extents_find(&extents, 50));
	CHECK(!extents_find(&extents, 9));
	free(extents.extent);
}

TEST(neighbours_of_one_kind_are_one)
{
	struct extents extents = make(10);

	for (uint64_t at = 0; at < 100; at++)
		extents_add(&extents, part(at, at + 1, 1));
	CHECK_EQUAL(extents.count, 1);
	CHECK_EQUAL(extents_find(&extents, 99)->start, 0);
	free(extents.extent);
}

TEST(what_goes_is_reported)
{
	struct extents extents = make(10);

	extents_add(&extents, part(10, 50, 1));
	extents_find(&extents, 10)->mapping = 1;
	extents_remove(&extents, 0, 15);
	extents_remove(&extents, 20, 30);
	extents_remove(&extents, 45, 100);
	CHECK_EQUAL(removed_bytes[1], 5 + 10 + 5);
	extents_add(&extents, part(0, 100, 2));
	CHECK_EQUAL(removed_bytes[1], 40);
	CHECK_EQUAL(extents.count, 1);
	free(extents.extent);
}

/* Every address is as in an array of them. */
TEST(any_order_is_right)
{
	struct extents extents = make(10);
	uint32_t model[SPACE] = { 0 };

	srand(1);
	for (int round = 0; round < 20000; round++) {
		uint64_t start = (uint64_t)rand() % SPACE;
		uint64_t end = start + (uint64_t)rand() % (SPACE - start + 1);
		uint32_t flags = (uint32_t)rand() % 4;

		if (flags)
			extents_add(&extents, part(start, end, flags));
		else
			extents_remove(&extents, start, end);
		for (uint64_t at = start; at < end; at++)
			model[at] = flags;
		for (uint64_t at = 0; at < SPACE; at++) {
			const struct extent *found = extents_find(&extents, at);

			CHECK_EQUAL(found ? found->flags : 0, model[at]);
		}
		for (size_t i = 1; i < extents.count; i++)
			CHECK(extents.extent[i - 1].end <= extents.extent[i].start);
	}
	free(extents.extent);
}

TEST(without_memory_some_are_not_known)
{
	struct extents extents = make(0);

	extents_add(&extents, part(10, 50, 1));
	CHECK(extents.failed);
	CHECK(!extents_find(&extents, 10));
}

CHECK_MAIN
