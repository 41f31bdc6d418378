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
/* Ages are counted by eighths of their power of two. */
#define REUSE_STEPS_SHIFT 3u
#define REUSE_AGES (48u << REUSE_STEPS_SHIFT)

struct reuse {
	uint64_t aged[LINE_KINDS][REUSE_AGES];	/* accesses of sampled lines, by age */
	uint64_t first[LINE_KINDS];		/* of lines that were not accessed before */
	/* At the last reuse_fade(): of this step of ages, older, or accessed for the first time. */
	uint64_t older[LINE_KINDS][REUSE_AGES + 1];
	uint64_t span, until;			/* references in which they were counted */
	uint32_t rarity;			/* one line in 1 << rarity is sampled */
};

/* A sampled line of this age is accessed. */
void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age);

/* Now: older observations count less from now on; reuse_age() draws from those made until now. */
void reuse_fade(struct reuse *reuse, uint64_t time);

/* Half as many lines are sampled from now on. */
void reuse_thin(struct reuse *reuse);

/*
 * When does a cache of this number of lines evict one that is not accessed, if it evicts the least
 * recently used?  NEVER_ACCESSED: it is not full.  `tables`: it holds page tables' lines, too.
 */
uint64_t reuse_evicted_after(const struct reuse *reuse, uint64_t lines, bool tables);

/*
 * The same if it held only lines that are accessed again, the soonest: no cache holds more (Belady,
 * 1966).
 */
uint64_t reuse_kept_for(const struct reuse *reuse, uint64_t lines, bool tables);

/*
 * The age of a line that was not accessed in the last `beyond` references, when it is accessed:
 * one of those sampled until reuse_fade(), by a random number.
 */
uint64_t reuse_age(const struct reuse *reuse, enum line_kind kind, uint64_t beyond,
		   uint64_t random);

#endif
