/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does the first touch of a page cost: fault, allocation and zeroing?  And unmapping it?
 */
#ifndef TLBCOST_FAULT_H
#define TLBCOST_FAULT_H

#include <stddef.h>

#include "arena.h"

/*
 * Touch `pages` fresh pages in order, prove that they have the requested page size, and unmap
 * them.  The times are ns per page of the first and the last.  Returns 0, or -1 with errno set
 * (ENODATA: another page size, otherwise as arena_open()).
 */
int fault_time(enum arena_method method, size_t page_bytes, size_t pages, double *fault_ns,
	       double *unmap_ns);

#endif
