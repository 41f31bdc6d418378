/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How old are lines when they are accessed?  The filter never holds the pages of sampled blocks, so
 * every reference to them is seen, throughout the run.
 */
#ifndef TLBSIM_REUSE_SAMPLES_H
#define TLBSIM_REUSE_SAMPLES_H

#include "tlb/tlb_config.h"
#include "timing/reuse.h"

#include "pub_tool_basics.h"

/* A block: the pages whose translations are in one line of a table. */
#define SAMPLED_BLOCK_SHIFT 15u

/* A block is sampled if the hash of its number is below this; 0: none is. */
extern ULong reuse_samples_below;

/* Start with none; does nothing if no core uses them. */
void reuse_samples_start(void);

static inline bool reuse_samples_has(uint64_t address)
{
	return (uint32_t)((address >> SAMPLED_BLOCK_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >> 32) <
	       reuse_samples_below;
}

/* A reference to a sampled block. */
void reuse_samples_saw(uint64_t address, enum tlb_side side, uint64_t time);

/* The base page's entry is read by a walk. */
void reuse_samples_walked(uint64_t address, uint64_t time);

/*
 * What was sampled so far, for a window that begins now; `pages`: the base pages that the program
 * has accessed.  NULL: no core uses it.
 */
const struct reuse *reuse_samples_now(uint64_t time, uint64_t pages);

#endif
