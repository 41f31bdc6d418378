/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are we still on the CPU that we measure?  Caches and TLBs are its own. */
#ifndef TLBCOST_CPU_H
#define TLBCOST_CPU_H

/*
 * Stay on this CPU; a negative number stands for the one that we are on.  Returns
 * its number, or -1 with errno set (EINVAL: not one that we may use).
 */
int cpu_pin(int cpu);

enum cpu_state {
	CPU_SAME,
	CPU_BACK,	/* was moved away, as when a CPU goes offline, and is back now */
	CPU_GONE,	/* cannot get back */
};

/* Where are we, having pinned ourselves to `cpu`?  Goes back if possible. */
enum cpu_state cpu_check(int cpu);

#endif
