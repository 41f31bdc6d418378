/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are all the additions made that a cycle is measured by? */
#include "check.h"

#include "cycles.h"

static void every_addition_is_made(void)
{
	CHECK_EQUAL(cycles_add(1, 32), 32);
	CHECK_EQUAL(cycles_add(3, 6400), 19200);
	CHECK_EQUAL(cycles_add(5, 0), 0);
	CHECK(cycles_add(UINT64_MAX, 64) == UINT64_MAX - 63);
}

static void a_cycle_takes_time(void)
{
	double ns = cycles_ns();

	CHECK(ns > 0);
}

static const struct check_test tests[] = {
	{ "every addition is made", every_addition_is_made },
	{ "a cycle takes time", a_cycle_takes_time },
};

CHECK_MAIN(tests)
