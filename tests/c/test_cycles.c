/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are all the additions made that a cycle is measured by? */
#include "check.h"

#include "cycles.h"

TEST(every_addition_is_made)
{
	CHECK_EQUAL(cycles_add(1, 32), 32);
	CHECK_EQUAL(cycles_add(3, 6400), 19200);
	CHECK_EQUAL(cycles_add(5, 0), 0);
	CHECK(cycles_add(UINT64_MAX, 64) == UINT64_MAX - 63);
}

TEST(a_cycle_takes_time)
{
	double ns = cycles_ns();

	CHECK(ns > 0);
}

CHECK_MAIN
