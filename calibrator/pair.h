/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do two chains with as many lines compare? */
#ifndef TLBCOST_PAIR_H
#define TLBCOST_PAIR_H

#include <stdint.h>

#include "chase.h"

/*
 * Time both chains, which are linked, in alternating parts, so that what
 * disturbs one disturbs the other too; `first` (0 or 1) begins.  `serial` picks
 * the loop, `state` seeds the overlapped one.  ns gets the median over the parts
 * of the ns per access.
 */
void pair_time(const struct chase chases[2], int serial, uint64_t state, unsigned first,
	       double ns[2]);

#endif
