/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Slices of an arm's work between check points: for programs that make no call for a while. */
#include "measuring.h"

#include "budget.h"
#include "check_point.h"
#include "clock.h"

/* An arm may take this much longer than the pilot for a part of a slice. */
#define SLOWER 20u
/* Shorter ones are mostly stops. */
#define SHORTEST_NS 2000000u
/*
 * On a busy machine the speed of one program drifts by 5 to 10 % at any time scale: what two arms
 * do in short turns meets the same drift.  Much shorter ones would measure caches that the other
 * arms have filled.
 */
#define TURN_NS 10000000u
/* The pilot is stepped so often for candidates, which are tried out for so long and so often. */
#define SEARCHES 4u
#define TRIALS 6u
#define TRIED_NS 2000000u
#define ENOUGH 2u

/*
 * Of a slice: where the first part ends, that warms caches, and the second one, that is measured.
 */
struct slice_checks {
	struct check_point warm, end;
	int64_t end_call;		/* in place of `end`; -1: it is that */
};

static uint64_t around(const struct measuring *measuring, uint64_t ns)
{
	/* Not in step with anything that the program does. */
	return ns * 9 / 10 + budget_random(measuring->random, ns / 5 + 1);
}

/*
 * The pilot runs on for a moment: what it comes by again soon, arms come by too early, maybe with
 * the same registers.  These candidates are dropped.
 */
static enum arm_end try_out(struct measuring *measuring, struct check_point *check)
{
	struct arm_stretch stretch = { 0 };
	enum arm_end end;

	check_point_fill(check, measuring->random);
	check_point_reset(check);
	do {
		end = arm_run(&measuring->pilot, check, TRIED_NS - stretch.cpu_ns, &stretch);
	} while (end == ARM_CHECKED && stretch.cpu_ns < TRIED_NS);
	check_point_keep(check);
	return end;
}

/* Where the pilot is, about.  Returns 0 or -1, as below. */
static int find_candidates(struct measuring *measuring, struct check_point *check)
{
	struct arm *pilot = &measuring->pilot;
	enum arm_end end = ARM_TIME;

	check_point_begin(check);
	for (unsigned i = 0; i < SEARCHES && check->count < ENOUGH && end != ARM_CALL; i++) {
		if (check_point_step(&pilot->copy, &pilot->registers) < 0)
			return measuring_stop(measuring, "lost");
		for (unsigned k = 0; k < TRIALS && check->count < ENOUGH && end != ARM_CALL; k++) {
			end = try_out(measuring, check);
			if (end == ARM_SIGNAL || end == ARM_GONE)
				return measuring_stop(measuring, measuring_word(end));
		}
	}
	return check->count ? 0 : measuring_stop(measuring, "tight");
}

/* The pilot runs for a while.  Returns 0 with a check point; 1 at a call; or -1. */
static int find_check(struct measuring *measuring, struct check_point *check, uint64_t ns)
{
	struct arm *pilot = &measuring->pilot;
	struct arm_stretch stretch = { 0 };
	const enum arm_end end = arm_run(pilot, NULL, around(measuring, ns), &stretch);

	if (end == ARM_CALL) {
		measuring->call = pilot->at_call;
		return 1;
	}
	if (end != ARM_TIME)
		return measuring_stop(measuring, measuring_word(end));
	return find_candidates(measuring, check);
}

static int send_pilot(struct measuring *measuring, struct slice_checks *checks)
{
	const struct arms_options *options = measuring->options;
	int rc = find_check(measuring, &checks->warm, options->warm_ns);

	if (rc == 1)
		return measuring_stop(measuring, "call");
	if (rc == 0)
		rc = find_check(measuring, &checks->end, options->measured_ns);
	if (rc < 0)
		return -1;
	checks->end_call = rc == 1 ? measuring->pilot.at_call : -1;
	/* The pages that it has got, the others have before they start. */
	return measuring_note_pages(measuring, measuring->pilot.copy.pid);
}

/* An arm warms its caches.  Returns 0 or -1, as below. */
static int warm_arm(struct measuring *measuring, struct slice_row *row,
		    struct check_point warm)
{
	struct arm *arm = &measuring->arms[row->arm];
	struct arm_stretch stretch = { 0 };
	enum arm_end end;

	check_point_reset(&warm);
	end = arm_run(arm, &warm, SLOWER * measuring->options->warm_ns, &stretch);
	row->warm_ns = stretch.cpu_ns;
	row->call = arm->at_call;
	if (end != ARM_CHECKED)
		return measuring_stop(measuring, measuring_word(end == ARM_TIME ? ARM_LATE : end));
	return 0;
}

/* How far an arm is. */
struct progress {
	struct check_point end;
	struct arm_stretch stretch;
	bool done;
};

/* One turn.  Returns 0 or -1, as below. */
static int take_turn(struct measuring *measuring, struct slice_row *row, struct progress *progress,
		     int64_t end_call)
{
	const uint64_t measured_ns = measuring->options->measured_ns;
	const bool to_call = end_call >= 0;
	struct arm *arm = &measuring->arms[row->arm];
	enum arm_end end = arm_run(arm, to_call ? NULL : &progress->end, TURN_NS,
				   &progress->stretch);

	if (to_call && end == ARM_CALL && arm->at_call == end_call)
		end = ARM_CHECKED;
	row->call = arm->at_call;
	if (end == ARM_TIME && progress->stretch.cpu_ns >= SLOWER * measured_ns)
		return measuring_stop(measuring, measuring_word(ARM_LATE));
	if (end == ARM_TIME && clock_ns() < measuring->deadline_ns)
		return 0;
	if (end != ARM_CHECKED)
		return measuring_stop(measuring, measuring_word(end));
	progress->done = true;
	row->time_ns = progress->stretch.cpu_ns;
	row->faults = progress->stretch.faults;
	row->stops = progress->stretch.stops;
	return 0;
}

/* All arms do the slice: each warms its caches, then they take turns. */
static int run_arms(struct measuring *measuring, struct slice_row rows[ARM_KINDS],
		    const struct slice_checks *checks)
{
	struct progress all[ARM_KINDS];
	enum arm_kind order[ARM_KINDS];
	unsigned left = ARM_KINDS;

	for (unsigned i = 0; i < ARM_KINDS; i++) {
		all[i] = (struct progress){ .end = checks->end };
		check_point_reset(&all[i].end);
		if (measuring_prepare(measuring, rows[i].arm) < 0)
			return -1;
		/* It may end by giving its memory back. */
		measuring_note_backing(measuring, &rows[i]);
		if (warm_arm(measuring, &rows[i], checks->warm) < 0)
			return -1;
	}
	while (left) {
		measuring_shuffle(measuring, order);
		for (unsigned i = 0; i < ARM_KINDS; i++) {
			struct progress *progress = &all[order[i]];

			if (progress->done)
				continue;
			if (take_turn(measuring, &rows[order[i]], progress, checks->end_call) < 0)
				return -1;
			left -= progress->done;
		}
	}
	return 0;
}

/* One slice.  Returns 0; or -1, and there are no more. */
static int run_slice(struct measuring *measuring, unsigned number)
{
	enum arm_kind order[ARM_KINDS];
	struct slice_checks checks = { .end_call = -1 };
	struct slice_row *rows = NULL;
	int rc;

	if (send_pilot(measuring, &checks) < 0)
		return -1;
	measuring_shuffle(measuring, order);
	for (unsigned turn = 0; turn < ARM_KINDS; turn++) {
		rows = slice_rows_add(measuring->rows, measuring->window);
		if (!rows)
			return -1;
		rows->slice = number;
		rows->turn = turn;
		rows->arm = order[turn];
	}
	rows -= ARM_KINDS - 1;
	rc = run_arms(measuring, rows, &checks);
	for (unsigned i = 0; i < ARM_KINDS; i++)
		rows[i].outcome = rc < 0 ? measuring->why :
				  rows[i].time_ns < SHORTEST_NS ? "short" : "good";
	if (rc < 0)
		return -1;
	if (checks.end_call >= 0)
		return measuring_stop(measuring, "call");
	return clock_ns() > measuring->deadline_ns ? measuring_stop(measuring, "time") : 0;
}

void turns_run(struct measuring *measuring)
{
	uint64_t begin_ns = clock_ns(), now;

	for (unsigned i = 0; i < measuring->options->slices; i++) {
		if (run_slice(measuring, i) < 0)
			return;
		now = clock_ns();
		/* For a large program most of the time is that of the first slice. */
		if (measuring->enough_ns && i + 1 >= ARMS_FEWEST_SLICES &&
		    2 * now - begin_ns > measuring->enough_ns)
			return;
		begin_ns = now;
	}
}
