/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arms.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "arm.h"
#include "arm_memory.h"
#include "budget.h"
#include "check_point.h"
#include "clock.h"
#include "sysfile.h"

/* An arm may take so much longer than the pilot for a part of a slice. */
#define SLOWER 20u
/* Shorter ones are mostly stops. */
#define SHORTEST_NS 2000000u
/* Fewer of an arm's bytes on huge pages say nothing about these. */
#define LEAST_HUGE_SHARE 2u
/* Time stamps differ between arms; where more than one page in 20 differs, they went different ways. */
#define DIFFERENT_SHARE 20u
#define DIFFERENT_FEW 16u
#define SPARE_BYTES (UINT64_C(256) << 20)

/* What is measured of one copy. */
struct measuring {
	const struct arms_options *options;
	struct slice_rows *rows;
	struct copy *copy;
	uint32_t window;
	uint64_t *random;
	uint64_t deadline_ns;
	struct page_runs pages;		/* that the work needs */
	/* It does each slice before the others, and finds the check points; it is not timed. */
	struct arm pilot;
	struct arm arms[ARM_KINDS];
	const char *why;		/* there are no (more) slices */
	int64_t call;			/* that is why */
};

/* Of a slice: where the first part ends, that warms caches, and the second one, that is measured. */
struct slice_checks {
	struct check_point warm, end;
	int64_t end_call;		/* in place of `end`; -1: it is that */
};

static const char *const end_words[] = {
	[ARM_TIME] = "time", [ARM_CHECKED] = "good", [ARM_TIGHT] = "tight", [ARM_CALL] = "call",
	[ARM_SIGNAL] = "signal", [ARM_LATE] = "late", [ARM_GONE] = "lost",
};

static int stop(struct measuring *measuring, const char *why)
{
	if (!measuring->why)
		measuring->why = why;
	return -1;
}

static int fork_arm(struct measuring *measuring, struct arm *arm)
{
	if (arm_fork(arm, measuring->copy) < 0 ||
	    arm_memory_unshare(arm) < 0)
		return stop(measuring, errno == ENOMEM ? "memory" : "failed");
	return 0;
}

/* Each arm has all pages to itself. */
static int check_room(struct measuring *measuring)
{
	struct memory_room room;

	if (sysfile_memory_room(&room) < 0 ||
	    room.bytes > ARM_KINDS * measuring->pages.bytes + SPARE_BYTES)
		return 0;
	return stop(measuring, "memory");
}

/* What this process has; the arms are to have that. */
static int note_pages(struct measuring *measuring, pid_t pid)
{
	page_runs_free(&measuring->pages);
	if (page_runs_read(&measuring->pages, pid) < 0)
		return stop(measuring, "failed");
	return 0;
}

static int prepare(struct measuring *measuring, enum arm_kind kind)
{
	if (arm_memory_prepare(&measuring->arms[kind], &measuring->pages, kind == ARM_HUGE,
			       measuring->options->huge_page_bytes) < 0)
		return stop(measuring, "failed");
	return 0;
}

static int make_arms(struct measuring *measuring)
{
	const unsigned first = (unsigned)budget_random(measuring->random, ARM_KINDS);

	if (note_pages(measuring, measuring->copy->pid) < 0 || check_room(measuring) < 0 ||
	    fork_arm(measuring, &measuring->pilot) < 0)
		return -1;
	for (unsigned i = 0; i < ARM_KINDS; i++) {
		const unsigned kind = (first + i) % ARM_KINDS;

		if (fork_arm(measuring, &measuring->arms[kind]) < 0 ||
		    prepare(measuring, (enum arm_kind)kind) < 0)
			return -1;
	}
	return 0;
}

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
		return stop(measuring, end_words[end]);
	if (check_point_find(check, &pilot->copy, &pilot->registers, measuring->random) < 0)
		return stop(measuring, "lost");
	return check->count ? 0 : stop(measuring, "tight");
}

static int send_pilot(struct measuring *measuring, struct slice_checks *checks)
{
	const struct arms_options *options = measuring->options;
	int rc = find_check(measuring, &checks->warm, options->warm_ns);

	if (rc == 1)
		return stop(measuring, "call");
	if (rc == 0)
		rc = find_check(measuring, &checks->end, options->measured_ns);
	if (rc < 0)
		return -1;
	checks->end_call = rc == 1 ? measuring->pilot.at_call : -1;
	/* What it got on its way, the others have before they start. */
	return note_pages(measuring, measuring->pilot.copy.pid);
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
	row->outcome = end_words[end];
	if (end != ARM_CHECKED)
		return stop(measuring, row->outcome);
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
	enum arm_kind order[ARM_KINDS] = { ARM_BASE, ARM_REPEAT, ARM_HUGE };
	struct slice_checks checks;

	if (send_pilot(measuring, &checks) < 0)
		return -1;
	for (unsigned turn = 0; turn < ARM_KINDS; turn++) {
		const unsigned other = turn + (unsigned)budget_random(measuring->random,
								      ARM_KINDS - turn);
		const enum arm_kind kind = order[other];
		struct slice_row *row = slice_rows_add(measuring->rows, measuring->window);

		order[other] = order[turn];
		if (!row)
			return -1;
		row->slice = number;
		row->turn = turn;
		row->arm = kind;
		if (prepare(measuring, kind) < 0 || arm_slice(measuring, row, &checks) < 0)
			return -1;
	}
	if (checks.end_call >= 0)
		return stop(measuring, "call");
	return clock_ns() > measuring->deadline_ns ? stop(measuring, "time") : 0;
}

/* Have they done the same? */
static bool have_diverged(const struct measuring *measuring, struct arm_difference *found)
{
	arm_memory_compare(measuring->copy, &measuring->arms[ARM_BASE], &measuring->arms[ARM_HUGE],
			   &measuring->pages, found);
	return found->different > DIFFERENT_FEW &&
	       found->different > found->changed / DIFFERENT_SHARE;
}

/* Of the rows of this copy, from that one on: what is so at the end of all slices. */
static void conclude(const struct measuring *measuring, size_t first)
{
	struct arm_difference difference = { 0, 0 };
	const bool diverged = have_diverged(measuring, &difference);

	for (size_t i = first; i < measuring->rows->count; i++) {
		struct slice_row *row = &measuring->rows->all[i];
		struct arm_backing backing;

		if (strcmp(row->outcome, "good") != 0)
			continue;
		row->changed_pages = difference.changed;
		row->different_pages = difference.different;
		if (diverged)
			row->outcome = "diverged";
		if (arm_backing_read(&backing, measuring->arms[row->arm].copy.pid) < 0)
			continue;
		row->anonymous_bytes = backing.anonymous_bytes;
		row->huge_bytes = backing.huge_bytes;
		if (row->arm == ARM_HUGE &&
		    backing.huge_bytes < backing.anonymous_bytes / LEAST_HUGE_SHARE)
			row->outcome = "not-huge";
	}
}

static void measure(struct measuring *measuring)
{
	const size_t first = measuring->rows->count;

	if (make_arms(measuring) == 0) {
		for (unsigned i = 0; i < measuring->options->slices; i++)
			if (run_turns(measuring, i) < 0)
				break;
		conclude(measuring, first);
	}
	arm_kill(&measuring->pilot, measuring->copy);
	for (unsigned kind = 0; kind < ARM_KINDS; kind++)
		arm_kill(&measuring->arms[kind], measuring->copy);
}

int arms_measure(struct slice_rows *rows, const struct arms_options *options, struct copy *copy,
		 uint32_t window, uint64_t *random)
{
	/* Too large for the stack; there is one thread. */
	static struct measuring measuring;
	const size_t first = rows->count;
	sigset_t child, before;

	measuring = (struct measuring){
		.options = options, .rows = rows, .copy = copy, .window = window,
		.random = random, .deadline_ns = clock_ns() + options->time_ns,
		.call = -1,
	};
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	measure(&measuring);
	sigprocmask(SIG_SETMASK, &before, NULL);
	page_runs_free(&measuring.pages);
	if (rows->count == first) {
		struct slice_row *row = slice_rows_add(rows, window);

		if (!row)
			return -1;
		row->outcome = measuring.why ? measuring.why : "failed";
		row->call = measuring.call;
	}
	return 0;
}
