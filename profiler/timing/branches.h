/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Would a branch be predicted?  Code after a mispredicted branch must wait for its outcome,
 * and overlaps with nothing before.
 *
 * After McFarling (WRL TN-36, 1993): for each branch the better one of two
 * tables of two-bit counters, one by address, one by address and history.
 */
#ifndef TLBCOST_TIMING_BRANCHES_H
#define TLBCOST_TIMING_BRANCHES_H

#include <stdbool.h>
#include <stdint.h>

#define BRANCH_COUNTERS 16384u
#define BRANCH_TARGETS 4096u

struct branches {
	uint64_t history;	/* the last outcomes, latest in bit 0 */
	uint64_t path;		/* of the last targets of indirect jumps */
	uint8_t local[BRANCH_COUNTERS];
	uint8_t global[BRANCH_COUNTERS];
	uint8_t choice[BRANCH_COUNTERS];
	uint64_t targets[BRANCH_TARGETS];
};

void branches_init(struct branches *branches);

/* A conditional branch went this way; returns whether that was predicted. */
bool branch_predicted(struct branches *branches, uint64_t branch, bool taken);

/* The same of the target of an indirect jump. */
bool target_predicted(struct branches *branches, uint64_t branch,
		      uint64_t target);

#endif
