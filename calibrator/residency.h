/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do lines that are not accessed remain in the last-level cache? */
#ifndef TLBCOST_RESIDENCY_H
#define TLBCOST_RESIDENCY_H

#include "chase.h"

/* The longest wait: a half-life of this much is a lower bound. */
#define RESIDENCY_MOST_NS 32e6

/*
 * The half-life of a linked chain's lines in the last-level cache, in ns, at most
 * RESIDENCY_MOST_NS: the chain is read, left alone for longer and longer times, and some of it
 * timed, until that takes half as long as from memory.  The chain should be larger than a
 * core's own caches and smaller than the last one; where it is evicted while it is read, the
 * result is the time of reading it.  Returns 0, or -1 with errno ENOTSUP: this CPU cannot
 * flush lines, so memory's latency is not known.
 */
int residency_half_life(const struct chase *chase, uint64_t seed, double *half_life_ns);

#endif
