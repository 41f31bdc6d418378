/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of the program's CPU time will the next copy stand for?
 *
 * CPU time is cut into strata, one after the other; a copy is taken at a random instant of each,
 * and stands for all of it.  All CPU time of a stratum has the same chance, so that a mean weighted
 * by the strata's lengths has no bias, however they grow.  A stratum's length is decided before it
 * begins: by what copies have cost so far, and by how many there are already.
 */
#ifndef TLBCOST_COPIES_BUDGET_H
#define TLBCOST_COPIES_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* What one copy cost the program. */
struct copy_cost {
	uint64_t pause_ns;
	uint64_t faults;		/* of pages that it shared with the copy */
	uint64_t resident_bytes;	/* of the program then */
};

/* The first five are set by the user of this; the others are private, but for reading. */
struct budget {
	uint64_t most_pause_ns;		/* for which a copy may stop a thread; 0: for any time */
	double fraction;		/* of the program's CPU time that copies may cost */
	uint64_t most_copies;		/* this many instead; 0: as `fraction` says */
	uint64_t expected_cpu_ns;	/* with most_copies: of the whole run; 0: not known */
	uint64_t fault_ns;		/* CPU time of one copy-on-write fault; see below */
	uint64_t spent_ns;		/* CPU time of the program that copies took so far */
	uint64_t copies;
	double ns_per_byte;		/* of resident memory, of the last copies */
	double pause_ns_per_byte;	/* the same, of their pauses alone */
	uint64_t copy_ns;		/* the last copies' */
	uint64_t works, work_ns;	/* what following the last ones cost in addition */
};

/* If it is not known.  A fault on a page that is no longer shared costs less than half of it. */
#define BUDGET_FAULT_NS 1200u
#define BUDGET_REUSES 2.4
/* Strata are at least so long. */
#define BUDGET_SHORTEST_NS 20000000u

/* What a copy would cost a program with this much resident memory, in ns. */
uint64_t budget_predict(const struct budget *budget, uint64_t resident_bytes);

/* A copy was taken. */
void budget_charge(struct budget *budget, const struct copy_cost *cost);
/* The program lost this time because a copy was followed, whatever its size. */
void budget_charge_work(struct budget *budget, uint64_t ns);
void budget_charge_late(struct budget *budget, uint64_t late_faults);

/* A copy stopped a thread for so long. */
void budget_note_pause(struct budget *budget, uint64_t pause_ns, uint64_t resident_bytes);
/*
 * Whether the next copy would stop one for longer than it may.  Each time that it would, a little
 * less is expected of the next, so that one bad moment is not the last.
 */
bool budget_pause_is_too_long(struct budget *budget, uint64_t resident_bytes);

/*
 * The length of the stratum that begins at this time of the program's CPU time; UINT64_MAX: there
 * is no budget left for any copy.
 */
uint64_t budget_stratum(const struct budget *budget, uint64_t cpu_ns, uint64_t resident_bytes);

/* A uniform random number in [0, below); `state` is the seed at first. */
uint64_t budget_random(uint64_t *state, uint64_t below);

#endif
