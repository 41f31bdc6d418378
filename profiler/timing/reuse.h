/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * After how many references does a program access a line again?
 *
 * The engine samples some of its lines throughout the run.  A line's age is its reuse
 * time: the references since its last access.  From the ages at which lines are accessed follows
 * how many different lines are accessed in a given time, and so when a cache evicts one (StatStack:
 * Eklov and Hagersten, ISPASS 2010).
 */
#ifndef TLBCOST_TIMING_REUSE_H
#define TLBCOST_TIMING_REUSE_H

#include <stdbool.h>
#include <stdint.h>

/* What a line contains. */
enum line_kind { LINE_DATA, LINE_TABLE, LINE_KINDS };

/* An age: never accessed before. */
#define NEVER_ACCESSED (UINT64_MAX >> 1)
/* Ages are counted in bins of a 32nd of their power of two. */
#define REUSE_LOGS 48u
#define REUSE_BINS_SHIFT 5u
#define REUSE_AGES (REUSE_LOGS << REUSE_BINS_SHIFT)

/* An access counts 16, so that small counts can be halved. */
#define REUSE_ONE 16u

struct reuse {
	uint64_t aged[LINE_KINDS][REUSE_AGES];	/* accesses of sampled lines, by age */
	/* The same by log2 of the age, and of the line's usual age; and the sum of usual ages. */
	uint64_t usual[LINE_KINDS][REUSE_LOGS][REUSE_LOGS];
	uint64_t usual_sum[LINE_KINDS][REUSE_LOGS];
	uint64_t first[LINE_KINDS];		/* first accesses of a line */
	/* As of the last reuse_fade(): accesses of this bin, of older ones, and first accesses. */
	uint64_t older[LINE_KINDS][REUSE_AGES + 1];
	uint64_t span, until;			/* the references that were counted */
	double sampled;				/* fraction of all lines */
};

/* A sampled line is accessed at this age; `usual` is its usual one. */
void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age, uint64_t usual);

/* Older observations count less from now on; reuse_age() draws from those made so far. */
void reuse_fade(struct reuse *reuse, uint64_t time);

/* Half as many lines are sampled from now on. */
void reuse_thin(struct reuse *reuse);

/*
 * What a cache keeps if it evicts the lines with the highest usual age: of the accesses of each age
 * (log2), how many out of REUSE_ALL hit.
 */
#define REUSE_ALL 256u
struct reuse_kept {
	uint16_t part[LINE_KINDS][REUSE_LOGS];
};

/* For a cache with this many lines.  `tables`: it holds page tables, too. */
struct reuse_kept reuse_kept(const struct reuse *reuse, uint64_t lines, bool tables);

/*
 * The age at which an LRU cache with this many lines evicts one.  `kept` are the lines that another
 * part of the cache keeps.  NEVER_ACCESSED: it is not full.
 */
uint64_t reuse_evicted_after(const struct reuse *reuse, uint64_t lines, bool tables,
			     const struct reuse_kept *kept);

/* log2 of an age, as an index. */
static inline uint32_t reuse_log(uint64_t age)
{
	const uint32_t log = age ? 63 - (uint32_t)__builtin_clzll(age) : 0;

	return log < REUSE_LOGS ? log : REUSE_LOGS - 1;
}

/*
 * Draw the age of an accessed line, which is older than `beyond`, from the samples as of
 * reuse_fade().
 */
uint64_t reuse_age(const struct reuse *reuse, enum line_kind kind, uint64_t beyond,
		   uint64_t random);

/* For a known age, one drawn from its bin, so that it can be compared with drawn ages. */
uint64_t reuse_spread(uint64_t age, uint64_t random);

#endif
