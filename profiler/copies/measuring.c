/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "measuring.h"

#include <errno.h>

#include "arm_memory.h"
#include "budget.h"

int measuring_stop(struct measuring *measuring, const char *why)
{
	if (!measuring->why)
		measuring->why = why;
	return -1;
}

const char *measuring_word(enum arm_end end)
{
	static const char *const words[] = {
		[ARM_TIME] = "time", [ARM_CHECKED] = "good", [ARM_TIGHT] = "tight",
		[ARM_CALL] = "call", [ARM_SIGNAL] = "signal", [ARM_LATE] = "late",
		[ARM_GONE] = "lost",
	};

	return words[end];
}

void measuring_shuffle(struct measuring *measuring, enum arm_kind order[ARM_KINDS])
{
	for (unsigned i = 0; i < ARM_KINDS; i++)
		order[i] = (enum arm_kind)i;
	for (unsigned i = 0; i < ARM_KINDS; i++) {
		const unsigned other = i + (unsigned)budget_random(measuring->random, ARM_KINDS - i);
		const enum arm_kind kind = order[other];

		order[other] = order[i];
		order[i] = kind;
	}
}

int measuring_fork(struct measuring *measuring, struct arm *arm)
{
	if (arm_fork(arm, measuring->copy) < 0)
		return measuring_stop(measuring, errno == ENOMEM ? "memory" : "failed");
	return 0;
}

int measuring_note_pages(struct measuring *measuring, pid_t pid)
{
	struct page_runs before = measuring->pages;
	int rc = page_runs_read(&measuring->pages, pid);

	page_runs_free(&measuring->new_pages);
	if (rc == 0)
		rc = page_runs_new(&measuring->new_pages, &measuring->pages, &before);
	page_runs_free(&before);
	page_runs_free(&measuring->written);
	if (rc == 0 && pid == measuring->pilot.copy.pid)
		rc = page_runs_exclusive(&measuring->written, &measuring->pages, pid);
	return rc < 0 ? measuring_stop(measuring, "failed") : 0;
}

int measuring_prepare(struct measuring *measuring, enum arm_kind kind)
{
	const bool huge = kind == ARM_HUGE;
	const struct page_runs *runs = measuring->options->keeps_frames && !huge ?
					       &measuring->written : &measuring->new_pages;

	if (arm_memory_prepare(&measuring->arms[kind], runs, huge,
			       measuring->options->huge_page_bytes) < 0)
		return measuring_stop(measuring, "failed");
	return 0;
}

void measuring_note_backing(const struct measuring *measuring, struct slice_row *row)
{
	struct arm_backing backing;

	if (arm_backing_read(&backing, measuring->arms[row->arm].copy.pid) < 0)
		return;
	row->anonymous_bytes = backing.anonymous_bytes;
	row->huge_bytes = backing.huge_bytes;
}
