/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long ago was a page walked, and the line of the table that its entry is in? */
#include <stdlib.h>

#include "check.h"
#include "timing/recency.h"

TEST(pages_and_their_lines_have_ages)
{
	struct recency *recency = calloc(1, sizeof(*recency));
	struct recency_ages ages;

	ages = recency_look(recency, 80, 1 << 20);
	CHECK_EQUAL(ages.page, 0);
	CHECK_EQUAL(ages.line, 0);
	recency_walk(recency, 80, 1 << 20);
	/* Its neighbour in the line; a step is 256 references. */
	ages = recency_look(recency, 87, (1 << 20) + 1024);
	CHECK_EQUAL(ages.page, 0);
	CHECK_EQUAL(ages.line, 1024);
	recency_walk(recency, 87, (1 << 20) + 1024);
	ages = recency_look(recency, 80, (1 << 20) + 4096);
	CHECK_EQUAL(ages.page, 4096);
	CHECK_EQUAL(ages.line, 3072);
	recency_walk(recency, 80, (1 << 20) + 4096);
	CHECK_EQUAL(recency_look(recency, 88, (1 << 20) + 4096).line, 0);
	CHECK_EQUAL(recency_look(recency, 81, (1 << 20) + 8192).line, 4096);
	/* Looking changes nothing. */
	CHECK_EQUAL(recency_look(recency, 81, (1 << 20) + 8192).line, 4096);
	CHECK(!recency_lost(recency, 80));
	/* Another block in the same place. */
	CHECK_EQUAL(recency_look(recency, 80 + RECENCY_PAGES * (uint64_t)RECENCY_BLOCKS, 1 << 21).line, 0);
	recency_walk(recency, 80 + RECENCY_PAGES * (uint64_t)RECENCY_BLOCKS, 1 << 21);
	CHECK_EQUAL(recency_look(recency, 80, 1 << 21).page, 0);
	CHECK(recency_lost(recency, 80));
	/* What was never there is not lost. */
	CHECK(!recency_lost(recency, 8000));
	free(recency);
}

CHECK_MAIN
