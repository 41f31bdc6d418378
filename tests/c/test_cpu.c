/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is it noticed when the kernel moves us to another CPU? */
#include "check.h"

#include <sched.h>

#include "cpu.h"

/* Go elsewhere, with the right to all CPUs, as when ours goes offline. */
static int go_elsewhere(int cpu, const cpu_set_t *all)
{
	cpu_set_t others = *all;

	CPU_CLR((unsigned)cpu, &others);
	if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0)
		return -1;
	return sched_getcpu() == cpu ? -1 : 0;
}

TEST(moved_and_back)
{
	cpu_set_t all;
	int cpu;

	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		CHECK_SKIP("more CPUs than a cpu_set_t has");
	cpu = cpu_pin(-1);
	CHECK(cpu >= 0);
	CHECK_EQUAL(cpu_pin(cpu), cpu);
	CHECK_EQUAL(cpu_pin(1 << 16), -1);
	CHECK_EQUAL(cpu_check(cpu), CPU_SAME);
	if (go_elsewhere(cpu, &all) != 0) {
		sched_setaffinity(0, sizeof(all), &all);
		CHECK_SKIP("there is no other CPU");
	}
	CHECK_EQUAL(cpu_check(cpu), CPU_BACK);
	CHECK_EQUAL(cpu_check(cpu), CPU_SAME);
	CHECK_EQUAL(cpu_check(CPU_SETSIZE - 1), CPU_GONE);
	sched_setaffinity(0, sizeof(all), &all);
}

CHECK_MAIN
