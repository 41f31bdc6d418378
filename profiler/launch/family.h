/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes did a process start, and are they stopped? */
#ifndef TLBCOST_LAUNCH_FAMILY_H
#define TLBCOST_LAUNCH_FAMILY_H

#include <stddef.h>
#include <sys/types.h>

/* Reading the processes' lists of children stops here. */
#define FAMILY_MOST 256

/* A process and those below it, parents first. */
struct family {
	pid_t pids[FAMILY_MOST];
	size_t n;
};

/*
 * Add the children of a thread.  None where the kernel has no lists of them
 * (CONFIG_PROC_CHILDREN), and none that there is no room for.
 */
void family_add_children(struct family *family, pid_t pid, pid_t tid);

/* Continue (SIGCONT) a process and all below it, children first. */
void family_continue(pid_t pid);

#endif
