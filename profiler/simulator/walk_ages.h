/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long ago was a walk to a page?  Walks are noted throughout the run, so a window knows
 * the age of the page-table entries that its walks read.
 */
#ifndef TLBSIM_WALK_AGES_H
#define TLBSIM_WALK_AGES_H

#include "timing/translation.h"
#include "tlb/model.h"

/* Start with no walks; does nothing without windows. */
void walk_ages_start(void);

/* A machine walks to the address's page, of this size, now. */
void walk_ages_walked(enum tlb_size size, uint64_t address);

/* The same in a window, where walk_ages_of() this walk are needed. */
void walk_ages_walked_now(enum tlb_size size, uint64_t address);

/*
 * The ages of the entries that the current walk reads, on a machine whose TLB entries are of this
 * size, as its core can use them: AGE_UNKNOWN and NEVER_ACCESSED only where no half-life is
 * calibrated.  false: no window was asked for.
 */
bool walk_ages_of(enum tlb_size size, uint64_t address, enum tlb_side side,
		  const struct timing_config *config, struct walk_ages *ages);

#endif
