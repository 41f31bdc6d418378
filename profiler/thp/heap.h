/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How far does the heap really grow when a program asks brk() for a little more? */
#ifndef TLBCOST_THP_HEAP_H
#define TLBCOST_THP_HEAP_H

#include <stdint.h>

#include "tasks.h"

/*
 * malloc moves the end of the heap in steps of 132 KiB, and the kernel gives a
 * huge page only where the heap already has all of it.  So it is grown to the
 * end of a huge page, and the program sees the size that it asked for.  Where it
 * shrinks, the huge page that it ends in is kept whole, too; what the program
 * gave back of it is cleared, since memory that it gets again is zero.
 */

enum heap_action {
	HEAP_PASS,	/* make the call as it is */
	HEAP_ANSWER,	/* make none: the heap is that large already */
	HEAP_GROW,	/* make it with *end instead */
	HEAP_SHRINK,	/* the same, with the whole pages between `wanted` and *end cleared before */
};

/* The program calls brk(wanted).  *end: the result for HEAP_ANSWER, else the argument. */
enum heap_action heap_enter(struct memory *memory, uint64_t wanted, uint64_t huge_page_bytes,
			    uint64_t *end);

/*
 * brk(argument) returned `result` after heap_enter(), or after a retry with
 * what was wanted.  Returns 1 with what the program is to get in *end; 0 if
 * the kernel refused the larger heap: retry with argument == wanted.
 */
int heap_exit(struct memory *memory, uint64_t wanted, uint64_t argument, uint64_t result,
	      uint64_t *end);

#endif
