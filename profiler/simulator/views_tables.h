/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counts and times of further machines.  The tables
 * "views" and "timings" in doc/format.md.
 */
#ifndef TLBSIM_VIEWS_TABLES_H
#define TLBSIM_VIEWS_TABLES_H

#include "tlb/views.h"

#include "pub_tool_basics.h"

/* Nothing, if there are no views. */
void views_tables_write(const HChar *state,
			const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES]);

#endif
