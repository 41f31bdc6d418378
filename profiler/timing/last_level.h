/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a line that is in no nearer cache in the last-level cache, or in memory?  For memory.c alone. */
#ifndef TLBCOST_TIMING_LAST_LEVEL_H
#define TLBCOST_TIMING_LAST_LEVEL_H

#include "memory.h"

#define AGE_UNKNOWN UINT64_MAX

/* What is wanted: data, or entries that were last read so many references ago. */
struct wish {
	enum line_kind kind;
	uint64_t age;
};

/* It is there afterwards. */
bool last_level_has(struct memory *memory, uint64_t line, ticks time,
		    struct wish wish);

/* As good as random, the same for each number, and different for each. */
static inline uint64_t scatter(uint64_t number)
{
	number = (number ^ number >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return number ^ number >> 32;
}

#endif
