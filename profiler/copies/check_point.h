/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An instant that several arms reach by the same work: without counters, how is it found again?
 *
 * One arm, the pilot, is single-stepped for a while.  A data word that it accesses rarely, or an
 * instruction that it executes once, is a candidate, if the pilot does not come by again soon; a
 * debug register stops an arm there.  The check point is the first stop at which all general
 * registers are as the pilot's were.
 */
#ifndef TLBCOST_COPIES_CHECK_POINT_H
#define TLBCOST_COPIES_CHECK_POINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#include "copy.h"

/* Debug registers that x86 has. */
#define CHECK_POINT_CANDIDATES 4u

struct check_candidate {
	uint64_t address;
	bool is_code;			/* else an aligned word of 8 bytes */
	struct user_regs_struct registers;	/* when it stops there */
	uint32_t hits;			/* with any registers */
	bool watched;
};

struct check_point {
	struct check_candidate candidates[CHECK_POINT_CANDIDATES];
	unsigned count;			/* 0: there is none */
};

/* Look for another one: no candidates, and no steps yet.  One is looked for at a time. */
void check_point_begin(struct check_point *check);

/*
 * Single-step the pilot, whose registers these are, and change them to where it is then.  Adds to
 * the steps.  Returns 0; or -1 with errno: it cannot continue.
 */
int check_point_step(const struct copy *pilot, struct user_regs_struct *registers);

/* Add candidates from the steps, the rarest first, while there is room. */
void check_point_fill(struct check_point *check, uint64_t *random);

/* Keep the candidates that were not hit, and do not choose the others again. */
void check_point_keep(struct check_point *check);

/* For another arm: all candidates are to be watched, and none was hit. */
void check_point_reset(struct check_point *check);

/* Stop it at those that are still watched.  Returns 0, or -1 with errno. */
int check_point_watch(const struct check_point *check, pid_t pid);
void check_point_disarm(pid_t pid);

enum check_hit {
	CHECK_NO_HIT,		/* the stop has another cause */
	CHECK_OTHER,		/* a candidate, but not the instant */
	CHECK_TIGHT,		/* the same, and no candidate is left that is hit rarely */
	CHECK_HIT,		/* this is it */
};

/* It has stopped with SIGTRAP and these registers. */
enum check_hit check_point_stopped(struct check_point *check, pid_t pid,
				   const struct user_regs_struct *registers);

/* Of the general registers and the instruction pointer. */
bool check_point_same(const struct user_regs_struct *one, const struct user_regs_struct *other);

#endif
