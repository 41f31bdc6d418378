/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do two chains with as many lines compare? */
#ifndef TLBCOST_PAIR_H
#define TLBCOST_PAIR_H

#include <stdint.h>

#include "chase.h"

/*
 * Time the chains (2, or 1 alone), which are linked, in alternating parts, so
 * that what disturbs one disturbs the other too; chain number `first` begins.
 * `seed` is that of overlapped updates.  ns gets the median over the parts of
 * the ns per access, for each chain.  Returns 0, or -1 with errno ENOTSUP: this CPU
 * has no such access.
 */
int pair_time(const struct chase *chases, unsigned count, enum chase_access access,
	       uint64_t seed, unsigned first, double *ns);

#endif
