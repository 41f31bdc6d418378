/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does a process stop when it comes to a place in its code? */
#ifndef TLBCOST_REGION_BREAKPOINTS_H
#define TLBCOST_REGION_BREAKPOINTS_H

#include <stdint.h>
#include <sys/types.h>

#define MOST_PLACES 64

/* A place in a file. */
struct place {
	uint64_t offset;
	const char *file;	/* as the kernel names it in maps */
};

/* One place in the code of a process. */
struct breakpoint {
	uint64_t address;	/* 0: the process has not mapped it */
	unsigned char code;	/* what is there */
	int set;
};

struct breakpoints {
	struct breakpoint at[MOST_PLACES];
	unsigned count;
};

/* Whether this processor's code can be stopped so. */
int breakpoints_supported(void);

/* "OFFSET:FILE".  Returns 0, or -1. */
int place_parse(struct place *place, const char *text);

/* Where the process has mapped them.  Returns 0, or -1 with errno. */
int breakpoints_find(struct breakpoints *all, pid_t pid, const struct place *places, unsigned count);

/* A single one, at an address. */
void breakpoints_one(struct breakpoints *all, uint64_t address);

/* While `tid` is in a ptrace stop.  Return 0, or -1 with errno. */
int breakpoints_set(struct breakpoints *all, pid_t tid);
int breakpoints_clear(struct breakpoints *all, pid_t tid);

/* Put the code back in a copy of the process's memory; the process itself keeps them. */
void breakpoints_clear_copy(const struct breakpoints *all, pid_t tid);

/* Whether one of them is at this address. */
int breakpoints_have(const struct breakpoints *all, uint64_t address);

/* The address at which a thread has just been stopped by one; 0: none is known. */
uint64_t breakpoint_hit(pid_t tid);

/* Let it execute what is there.  Returns 0, or -1 with errno. */
int breakpoint_back(pid_t tid, uint64_t address);

/* Where the program's own code begins, when its libraries are there.  0: not known. */
uint64_t entry_of(pid_t pid);

#endif
