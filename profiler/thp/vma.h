/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of the kernel's memory areas of a process is at an address? */
#ifndef TLBCOST_THP_VMA_H
#define TLBCOST_THP_VMA_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* One area of /proc/PID/maps. */
struct vma {
	uint64_t start, end;
	int writable, executable, shared;
	int anonymous;	/* no file's: heap, mmap of anonymous memory, bss */
	int stack;	/* the first thread's */
};

/* Read a line of maps, or one that begins an area in smaps.  Returns 1; 0 if it is another one. */
int vma_parse(const char *line, struct vma *vma);

/* The areas of a process, for vma_next() and fclose().  NULL with errno. */
FILE *vma_open(pid_t pid);

/* The next area of maps.  Returns 1; 0 at the end. */
int vma_next(FILE *maps, struct vma *vma);

/*
 * The area that holds `address`.  Returns 1; 0 if there is none, or its
 * process's areas may not be read.
 */
int vma_find(pid_t pid, uint64_t address, struct vma *vma);

#endif
