/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long is a cycle of this core? */
#ifndef TLBCOST_CYCLES_H
#define TLBCOST_CYCLES_H

#include <stdint.h>

/*
 * Add `step` to itself `count` times (a multiple of 32), each addition depending on the last.
 */
uint64_t cycles_add(uint64_t step, uint64_t count);

/*
 * ns per dependent addition, which takes one cycle on every known core.  Takes
 * about 50 us; whether the clock changed shows only in many of them.
 */
double cycles_ns(void);

/* Be busy for a while, so that the core's clock reaches its working frequency. */
void cycles_wake(void);

#endif
