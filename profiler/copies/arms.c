/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arms.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "arm_compare.h"
#include "arm_memory.h"
#include "budget.h"
#include "clock.h"
#include "measuring.h"
#include "private_memory.h"
#include "sysfile.h"

/* Fewer of an arm's bytes on huge pages say nothing about these. */
#define LEAST_HUGE_SHARE 2u
/*
 * Time stamps differ between arms; where more than one page in 20 differs, they went different
 * ways.
 */
#define DIFFERENT_SHARE 20u
#define DIFFERENT_FEW 16u
#define SPARE_BYTES (UINT64_C(256) << 20)

/* Each arm gets its own copy of all pages. */
static int check_room(struct measuring *measuring)
{
	struct memory_room room;

	if (sysfile_memory_room(&room) < 0 ||
	    room.bytes > ARM_KINDS * measuring->pages.bytes + SPARE_BYTES)
		return 0;
	return measuring_stop(measuring, "memory");
}

/* Of the copy, before arms are forked from it: then it is memory like any other. */
static int make_private(struct measuring *measuring)
{
	const struct arms_options *options = measuring->options;
	struct copy *copy = measuring->copy;

	if (options->text &&
	    private_memory_text(copy, &copy->start, options->huge_page_bytes) < 0)
		return measuring_stop(measuring, "failed");
	if (options->shared) {
		struct shared_memory shared;
		const int rc = shared_memory_isolate(&shared, copy, &copy->start, false);

		shared_memory_free(&shared);
		if (rc < 0)
			return measuring_stop(measuring, "failed");
	}
	return 0;
}

static int make_arms(struct measuring *measuring)
{
	const unsigned first = (unsigned)budget_random(measuring->random, ARM_KINDS);

	if (make_private(measuring) < 0 ||
	    measuring_note_pages(measuring, measuring->copy->pid) < 0 || check_room(measuring) < 0 ||
	    measuring_fork(measuring, &measuring->pilot) < 0)
		return -1;
	for (unsigned i = 0; i < ARM_KINDS; i++) {
		const unsigned kind = (first + i) % ARM_KINDS;

		if (measuring_fork(measuring, &measuring->arms[kind]) < 0 ||
		    measuring_prepare(measuring, (enum arm_kind)kind) < 0)
			return -1;
	}
	return 0;
}

/* Have they done the same? */
static bool have_diverged(const struct measuring *measuring, struct arm_difference *found)
{
	arm_compare(measuring->copy, &measuring->pilot, &measuring->arms[ARM_BASE],
		    &measuring->arms[ARM_HUGE], &measuring->pages, found);
	return found->different > DIFFERENT_FEW &&
	       found->different > found->changed / DIFFERENT_SHARE;
}

/* Fill in what is known at the end of all slices: this copy's rows, from that one on. */
static void conclude(const struct measuring *measuring, size_t first)
{
	struct arm_difference difference;
	const bool diverged = have_diverged(measuring, &difference);

	for (size_t i = first; i < measuring->rows->count; i++) {
		struct slice_row *row = &measuring->rows->all[i];

		if (strcmp(row->outcome, "good") != 0)
			continue;
		row->changed_pages = difference.changed;
		row->different_pages = difference.different;
		if (diverged)
			row->outcome = "diverged";
		if (row->arm == ARM_HUGE && row->huge_bytes != SLICE_UNKNOWN &&
		    row->huge_bytes < row->anonymous_bytes / LEAST_HUGE_SHARE)
			row->outcome = "not-huge";
	}
}

static void measure(struct measuring *measuring)
{
	const size_t first = measuring->rows->count;

	if (make_arms(measuring) == 0) {
		if (measuring->recording)
			answered_run(measuring);
		else
			turns_run(measuring);
		conclude(measuring, first);
	}
	arm_kill(&measuring->pilot, measuring->copy);
	for (unsigned kind = 0; kind < ARM_KINDS; kind++)
		arm_kill(&measuring->arms[kind], measuring->copy);
}

int arms_measure(struct slice_rows *rows, const struct arms_options *options, struct copy *copy,
		 const struct recording *recording, uint32_t window, uint64_t *random)
{
	/* Too large for the stack; there is one thread. */
	static struct measuring measuring;
	const size_t first = rows->count;
	const uint64_t now = clock_ns();
	sigset_t child, before;

	measuring = (struct measuring){
		.options = options, .rows = rows, .copy = copy,
		.recording = recording, .window = window,
		.random = random, .deadline_ns = now + options->time_ns,
		.enough_ns = options->enough_ns ? now + options->enough_ns : 0,
		.call = -1,
	};
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	measure(&measuring);
	sigprocmask(SIG_SETMASK, &before, NULL);
	page_runs_free(&measuring.pages);
	page_runs_free(&measuring.new_pages);
	page_runs_free(&measuring.written);
	if (rows->count == first) {
		struct slice_row *row = slice_rows_add(rows, window);

		if (!row)
			return -1;
		row->outcome = measuring.why ? measuring.why : "failed";
		row->call = measuring.call;
	}
	return 0;
}
