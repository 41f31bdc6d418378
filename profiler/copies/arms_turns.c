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

/* The pilot runs for a while.  Returns 0 with a check point; 1 at a call; or -1. */
static int find_check(struct measuring *measuring, struct check_point *check, uint64_t ns)
{
	struct arm *pilot = &measuring->pilot;
	struct arm_stretch stretch;
	const enum arm_end end = arm_run(pilot, NULL, around(measuring, ns), &stretch);

	if (end == ARM_CALL) {
		measuring->call = pilot->at_call;
		return 1;
	}
	if (end != ARM_TIME)
		return measuring_stop(measuring, measuring_word(end));
	if (check_point_find(check, &pilot->copy, &pilot->registers, measuring->random) < 0)
		return measuring_stop(measuring, "lost");
	return check->count ? 0 : measuring_stop(measuring, "tight");
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

/* An arm does the slice.  Returns 0; or -1, and no arm can do another slice. */
static int arm_slice(struct measuring *measuring, struct slice_row *row,
		     struct slice_checks *checks)
{
	const struct arms_options *options = measuring->options;
	struct arm *arm = &measuring->arms[row->arm];
	const bool to_call = checks->end_call >= 0;
	struct arm_stretch warm, measured;
	enum arm_end end = arm_run(arm, &checks->warm, SLOWER * options->warm_ns, &warm);

	if (end == ARM_CHECKED) {
		end = arm_run(arm, to_call ? NULL : &checks->end, SLOWER * options->measured_ns,
			      &measured);
		if (to_call && end == ARM_CALL && arm->at_call == checks->end_call)
			end = ARM_CHECKED;
	}
	row->call = arm->at_call;
	row->outcome = measuring_word(end);
	if (end != ARM_CHECKED)
		return measuring_stop(measuring, row->outcome);
	row->outcome = measured.cpu_ns < SHORTEST_NS ? "short" : "good";
	row->warm_ns = warm.cpu_ns;
	row->time_ns = measured.cpu_ns;
	row->faults = measured.faults;
	row->stops = measured.stops;
	return 0;
}

/* All arms do it, in random order. */
static int run_turns(struct measuring *measuring, unsigned number)
{
	enum arm_kind order[ARM_KINDS];
	struct slice_checks checks;

	if (send_pilot(measuring, &checks) < 0)
		return -1;
	measuring_shuffle(measuring, order);
	for (unsigned turn = 0; turn < ARM_KINDS; turn++) {
		struct slice_row *row = slice_rows_add(measuring->rows, measuring->window);

		if (!row)
			return -1;
		row->slice = number;
		row->turn = turn;
		row->arm = order[turn];
		if (measuring_prepare(measuring, row->arm) < 0 ||
		    arm_slice(measuring, row, &checks) < 0)
			return -1;
	}
	if (checks.end_call >= 0)
		return measuring_stop(measuring, "call");
	return clock_ns() > measuring->deadline_ns ? measuring_stop(measuring, "time") : 0;
}

void turns_run(struct measuring *measuring)
{
	uint64_t begin_ns = clock_ns(), now;

	for (unsigned i = 0; i < measuring->options->slices; i++) {
		if (run_turns(measuring, i) < 0)
			return;
		now = clock_ns();
		/* For a large program most of the time is that of the first slice. */
		if (measuring->enough_ns && i + 1 >= ARMS_FEWEST_SLICES &&
		    2 * now - begin_ns > measuring->enough_ns)
			return;
		begin_ns = now;
	}
}
