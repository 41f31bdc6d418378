/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often did memory or code miss? */
#ifndef TLBSIM_MISSES_H
#define TLBSIM_MISSES_H

#include "tlb/model.h"

#include "pub_tool_basics.h"

struct misses {
	ULong hits, walks;	/* of the second level; that needed a walk */
};

enum { MISSES_DATA, MISSES_FETCH, MISSES_SIDES };

static inline void misses_add(struct misses *misses, bool walk)
{
	if (walk)
		misses->walks++;
	else
		misses->hits++;
}

/* Which of a table's counts is a reference of this side in? */
static inline UInt misses_side(enum tlb_side side)
{
	return side == TLB_FETCH ? MISSES_FETCH : MISSES_DATA;
}

#endif
