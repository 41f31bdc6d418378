/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much time did others take from us: other tasks on our CPU, and the hypervisor? */
#ifndef TLBCOST_LOAD_H
#define TLBCOST_LOAD_H

#include <stdint.h>

#include "table.h"

#define LOAD_UNKNOWN UINT64_MAX

/*
 * Counters since this thread, or the CPU, started; LOAD_UNKNOWN: the kernel does not report
 * it.
 */
struct load {
	uint64_t at_ns;
	uint64_t ran_ns, waited_ns;	/* schedstat: on a CPU; runnable without one */
	uint64_t switches;		/* involuntary ones */
	uint64_t stolen_ns;		/* steal of that CPU: the hypervisor ran something else */
};

/* The counters as they are, of the calling thread and of `cpu`. */
struct load load_now(int cpu);

/* Write the keys measured_ns .. stolen_ns: what has changed since `before`; NA: unknown. */
void load_write(const struct load *before, const struct load *after, struct table *table);

/*
 * How often the kernel has taken the CPU from this thread; a timing during which the number
 * changes does not count.  Costs a system call, and no file.
 */
uint64_t load_switches(void);

#endif
