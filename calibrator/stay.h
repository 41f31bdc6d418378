/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do lines stay in the last-level cache that nobody wants? */
#ifndef TLBCOST_STAY_H
#define TLBCOST_STAY_H

#include "chase.h"

/* Longer is not waited: lines that are still there stay that long at least. */
#define STAY_MOST_NS 32e6

/*
 * ns after which about half of the lines of a linked chain have left the caches,
 * at most STAY_MOST_NS: the chain is read, left alone for longer and longer, and
 * some of it timed, until that takes half as long as from memory.  It should be
 * larger than a core's own caches, and smaller than the last one; where it is not
 * in there even at once, the time is that of reading it.  Returns 0, or -1 with
 * errno ENOTSUP: this CPU cannot flush lines, so that memory's latency is not
 * known.
 */
int stay_time(const struct chase *chase, uint64_t seed, double *ns);

#endif
