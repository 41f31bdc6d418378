/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cpu.h"

#include <errno.h>
#include <sched.h>

static int stay_on(int cpu)
{
	const size_t number = (size_t)cpu, size = CPU_ALLOC_SIZE(number + 1);
	cpu_set_t *set = CPU_ALLOC(number + 1);
	int rc, error;

	if (!set)
		return -1;
	CPU_ZERO_S(size, set);
	CPU_SET_S(number, size, set);
	rc = sched_setaffinity(0, size, set);
	error = errno;
	CPU_FREE(set);
	errno = error;
	return rc;
}

int cpu_pin(int cpu)
{
	if (cpu < 0)
		cpu = sched_getcpu();
	return cpu < 0 || stay_on(cpu) != 0 ? -1 : cpu;
}

enum cpu_state cpu_check(int cpu)
{
	if (sched_getcpu() == cpu)
		return CPU_SAME;
	/* The kernel gave us another CPU, and the right to all of them. */
	return stay_on(cpu) == 0 && sched_getcpu() == cpu ? CPU_BACK : CPU_GONE;
}
