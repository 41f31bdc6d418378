/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often did the process miss?  The table "counts" in doc/format.md. */
#ifndef TLBSIM_COUNTS_TABLE_H
#define TLBSIM_COUNTS_TABLE_H

#include "tlb/model.h"

#include "pub_tool_basics.h"

/* The counts of all threads; NULL: there are none yet, and no rows. */
void counts_table_write(const HChar *state,
			const struct tlb_counts counts[TLB_SIZES][TLB_SIDES],
			UInt threads);

#endif
