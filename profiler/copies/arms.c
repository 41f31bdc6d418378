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
/* Time stamps differ between arms; of more pages than one in so many, they went different ways. */
#define DIFFERENT_SHARE 20u
#define DIFFERENT_FEW 16u
#define SPARE_BYTES (UINT64_C(256) << 20)

/* What is measured of one copy. */
struct measuring {
	const struct arms_options *options;
	struct slice_rows *rows;
	struct copy *copy;
	const struct recording *recording;
	uint32_t window;
	uint64_t *random;
	uint64_t deadline_ns;
	/* Two for each slice: where it warms until, and where it ends. */
	struct check_point checks[2 * ARMS_MOST_SLICES];
	unsigned check_count;
	struct page_runs pages;		/* that the work needs */
	struct arm arms[ARM_KINDS];
	const char *why;		/* there are no (more) slices */
	int64_t call;			/* that is why */
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

static uint64_t part_ns(const struct measuring *measuring, unsigned check)
{
	const struct arms_options *options = measuring->options;
	const uint64_t ns = check % 2 ? options->measured_ns : options->warm_ns;

	/* Not in step with anything that the program does. */
	return ns * 9 / 10 + budget_random(measuring->random, ns / 5 + 1);
}

/* The pilot does the work first, and finds check points on its way. */
static void pilot_runs(struct measuring *measuring, struct arm *pilot)
{
	const unsigned most = 2 * measuring->options->slices;
	struct arm_stretch stretch;

	while (measuring->check_count < most && measuring->check_count < 2 * ARMS_MOST_SLICES) {
		struct check_point *check = &measuring->checks[measuring->check_count];
		const enum arm_end end =
			arm_run(pilot, NULL, part_ns(measuring, measuring->check_count), &stretch);

		if (clock_ns() > measuring->deadline_ns) {
			stop(measuring, "time");
			return;
		}
		if (end != ARM_TIME) {
			measuring->call = pilot->at_call;
			stop(measuring, end_words[end]);
			return;
		}
		if (check_point_find(check, &pilot->copy, &pilot->registers,
				     measuring->random) < 0) {
			stop(measuring, "lost");
			return;
		}
		if (!check->count) {
			stop(measuring, "tight");
			return;
		}
		measuring->check_count++;
	}
}

/* Those at the instant of the copy; then, with what the pilot has got besides. */
static int note_pages(struct measuring *measuring, pid_t pid)
{
	page_runs_free(&measuring->pages);
	if (page_runs_read(&measuring->pages, pid) < 0)
		return stop(measuring, "failed");
	return 0;
}

static int fork_arm(struct measuring *measuring, struct arm *arm)
{
	if (arm_fork(arm, measuring->copy, measuring->recording) < 0 ||
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

static int prepare(struct measuring *measuring, struct arm *arm, bool huge)
{
	if (fork_arm(measuring, arm) == 0 &&
	    arm_memory_prepare(arm, &measuring->pages, huge,
			       measuring->options->huge_page_bytes) == 0)
		return 0;
	return stop(measuring, "failed");
}

static int send_pilot(struct measuring *measuring)
{
	struct arm pilot = { .copy = { .pid = 0 } };
	int rc;

	/* Its pace is that of the arms only if it has pages of its own, too. */
	rc = note_pages(measuring, measuring->copy->pid);
	if (rc == 0)
		rc = check_room(measuring);
	if (rc == 0)
		rc = prepare(measuring, &pilot, false);
	if (rc == 0) {
		pilot_runs(measuring, &pilot);
		rc = note_pages(measuring, pilot.copy.pid);
	}
	arm_kill(&pilot, measuring->copy);
	if (rc == 0 && measuring->check_count < 2)
		return stop(measuring, "short");
	return rc;
}

static int prepare_arms(struct measuring *measuring)
{
	const unsigned first = (unsigned)budget_random(measuring->random, ARM_KINDS);

	if (check_room(measuring) < 0)
		return -1;
	for (unsigned i = 0; i < ARM_KINDS; i++) {
		const unsigned kind = (first + i) % ARM_KINDS;

		if (prepare(measuring, &measuring->arms[kind], kind == ARM_HUGE) < 0)
			return -1;
	}
	return 0;
}

/* One arm does one slice.  Returns 0; or -1, and no arm can do another. */
static int run_slice(struct measuring *measuring, struct slice_row *row, unsigned number)
{
	const struct arms_options *options = measuring->options;
	struct arm *arm = &measuring->arms[row->arm];
	struct arm_stretch warm, measured = { 0 };
	enum arm_end end =
		arm_run(arm, &measuring->checks[2 * number], SLOWER * options->warm_ns, &warm);

	if (end == ARM_CHECKED)
		end = arm_run(arm, &measuring->checks[2 * number + 1],
			      SLOWER * options->measured_ns, &measured);
	row->outcome = end_words[end];
	row->call = arm->at_call;
	if (end != ARM_CHECKED)
		return stop(measuring, row->outcome);
	row->warm_ns = warm.cpu_ns;
	row->time_ns = measured.cpu_ns;
	row->faults = measured.faults;
	row->stops = measured.stops;
	if (row->time_ns < SHORTEST_NS)
		row->outcome = "short";
	return 0;
}

/* All arms do it, in random order. */
static int run_turns(struct measuring *measuring, unsigned number)
{
	unsigned order[ARM_KINDS] = { ARM_BASE, ARM_REPEAT, ARM_HUGE };

	for (unsigned i = ARM_KINDS - 1; i > 0; i--) {
		const unsigned other = (unsigned)budget_random(measuring->random, i + 1);
		const unsigned kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
	for (unsigned turn = 0; turn < ARM_KINDS; turn++) {
		struct slice_row *row = slice_rows_add(measuring->rows, measuring->window);

		if (!row)
			return -1;
		row->slice = number;
		row->turn = turn;
		row->arm = (enum arm_kind)order[turn];
		if (run_slice(measuring, row, number) < 0)
			return -1;
		if (clock_ns() > measuring->deadline_ns)
			return stop(measuring, "time");
	}
	return 0;
}

/* Of the rows of this copy from the one on: what is so at the end of all slices. */
static void conclude(struct measuring *measuring, size_t first)
{
	struct arm_backing backing[ARM_KINDS];
	struct arm_difference difference[ARM_KINDS] = { { 0, 0 } };
	bool seen[ARM_KINDS];

	for (unsigned kind = 0; kind < ARM_KINDS; kind++) {
		const struct arm *arm = &measuring->arms[kind];

		seen[kind] = arm->copy.pid > 0 &&
			     arm_backing_read(&backing[kind], arm->copy.pid) == 0;
		if (kind != ARM_BASE && !measuring->why)
			arm_memory_compare(measuring->copy, &measuring->arms[ARM_BASE], arm,
					   &measuring->pages, &difference[kind]);
	}
	for (size_t i = first; i < measuring->rows->count; i++) {
		struct slice_row *row = &measuring->rows->all[i];
		const struct arm_difference *found = &difference[row->arm];

		if (seen[row->arm]) {
			row->anonymous_bytes = backing[row->arm].anonymous_bytes;
			row->huge_bytes = backing[row->arm].huge_bytes;
			if (row->arm == ARM_HUGE && !strcmp(row->outcome, "good") &&
			    row->huge_bytes < row->anonymous_bytes / LEAST_HUGE_SHARE)
				row->outcome = "not-huge";
		}
		if (measuring->why || row->arm == ARM_BASE)
			continue;
		row->changed_pages = found->changed;
		row->different_pages = found->different;
		if (found->different > DIFFERENT_FEW &&
		    found->different > found->changed / DIFFERENT_SHARE)
			row->outcome = "diverged";
	}
}

static void measure(struct measuring *measuring)
{
	const size_t first = measuring->rows->count;
	unsigned slices;

	if (send_pilot(measuring) == 0 && prepare_arms(measuring) == 0) {
		/* What ended the pilot is not what ends them. */
		measuring->why = NULL;
		slices = measuring->check_count / 2;
		for (unsigned i = 0; i < slices; i++)
			if (run_turns(measuring, i) < 0)
				break;
		conclude(measuring, first);
	}
	for (unsigned kind = 0; kind < ARM_KINDS; kind++)
		arm_kill(&measuring->arms[kind], measuring->copy);
}

int arms_measure(struct slice_rows *rows, const struct arms_options *options, struct copy *copy,
		 const struct recording *recording, uint32_t window, uint64_t *random)
{
	/* Too large for the stack; there is one thread. */
	static struct measuring measuring;
	const size_t first = rows->count;
	sigset_t child, before;

	measuring = (struct measuring){
		.options = options, .rows = rows, .copy = copy, .recording = recording,
		.window = window, .random = random, .deadline_ns = clock_ns() + options->time_ns,
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
