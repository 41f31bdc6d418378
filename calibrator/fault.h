/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does the first touch of a page cost: fault, allocation and zeroing? */
#ifndef TLBCOST_FAULT_H
#define TLBCOST_FAULT_H

#include <stddef.h>

#include "arena.h"

/*
 * Touch `pages` fresh pages in order.  Returns ns per page, after proving that
 * they had the page size asked for; or a negative number with errno set
 * (ENODATA: another page size, otherwise as arena_open()).
 */
double fault_ns(enum arena_method method, size_t page_bytes, size_t pages);

#endif
