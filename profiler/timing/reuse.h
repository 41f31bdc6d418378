/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * After how many references does a program access a line again?
 *
 * The engine samples some of its lines throughout the run.  From the ages of lines when they
 * are accessed follows how many different lines are accessed in a time, and so after how long a
 * cache has evicted a line (StatStack: Eklov and Hagersten, ISPASS 2010).  All times are in
 * references.
 */
#ifndef TLBCOST_TIMING_REUSE_H
#define TLBCOST_TIMING_REUSE_H

#include <stdbool.h>
#include <stdint.h>

/* What lines are of. */
enum line_kind { LINE_DATA, LINE_TABLE, LINE_KINDS };

/* An age: never accessed before. */
#define NEVER_ACCESSED (UINT64_MAX >> 1)
/* Ages are counted by 32nds of their power of two. */
#define REUSE_LOGS 48u
#define REUSE_STEPS_SHIFT 5u
#define REUSE_AGES (REUSE_LOGS << REUSE_STEPS_SHIFT)

/* Counts are in parts of an access, so that few of them can be halved. */
#define REUSE_ONE 16u

struct reuse {
	uint64_t aged[LINE_KINDS][REUSE_AGES];	/* accesses of sampled lines, by age */
	/* The same by log2 of their age, and of the line's usual age; and the latter's sum, whole. */
	uint64_t usual[LINE_KINDS][REUSE_LOGS][REUSE_LOGS];
	uint64_t usual_sum[LINE_KINDS][REUSE_LOGS];
	uint64_t first[LINE_KINDS];		/* of lines that were not accessed before */
	/* At the last reuse_fade(): of this step of ages, older, or accessed for the first time. */
	uint64_t older[LINE_KINDS][REUSE_AGES + 1];
	uint64_t span, until;			/* references in which they were counted */
	double sampled;				/* the part of all lines that is sampled */
};

/* A sampled line of this age is accessed, which is usually accessed at the other one. */
void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age, uint64_t usual);

/* Now: older observations count less from now on; reuse_age() draws from those made until now. */
void reuse_fade(struct reuse *reuse, uint64_t time);

/* Half as many lines are sampled from now on. */
void reuse_thin(struct reuse *reuse);

/*
 * What a cache keeps that evicts what is accessed again the latest, by the usual ages of lines: of
 * lines accessed, by log2 of their age, a part out of REUSE_ALL.
 */
#define REUSE_ALL 256u
struct reuse_kept {
	uint16_t part[LINE_KINDS][REUSE_LOGS];
};

/* Of a cache of this number of lines.  `tables`: it holds page tables' lines, too. */
struct reuse_kept reuse_kept(const struct reuse *reuse, uint64_t lines, bool tables);

/*
 * When does a cache of this number of lines evict one that is not accessed, if it evicts the least
 * recently used, and has none of those that are kept elsewhere?  NEVER_ACCESSED: it is not full.
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
 * The age of a line that was not accessed in the last `beyond` references, when it is accessed:
 * one of those sampled until reuse_fade(), by a random number.
 */
uint64_t reuse_age(const struct reuse *reuse, enum line_kind kind, uint64_t beyond,
		   uint64_t random);

/* The same if the age is known: ages are drawn from all of a step, and only such compare. */
uint64_t reuse_spread(uint64_t age, uint64_t random);

#endif
