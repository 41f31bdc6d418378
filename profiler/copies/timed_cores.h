/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The timing model of a worker: a core for each page size.  It is kept from window to window, with
 * the program's time in between.
 */
#ifndef TLBCOST_COPIES_TIMED_CORES_H
#define TLBCOST_COPIES_TIMED_CORES_H

#include <sys/types.h>

#include "dataflow.h"
#include "timing/recency.h"
#include "timing/wrong_paths.h"
#include "tlb/model.h"
#include "window_options.h"

/* To base pages, and to huge pages: by walks of base pages, and by their own. */
enum { AGES_BASE, AGES_HUGE_BY_BASE, AGES_HUGE, AGES_KINDS };

struct timed_cores {
	const struct window_options *options;
	pid_t pid;		/* whose memory the caches hold; 0: none */
	struct core *cores;
	struct cache last_level[TLB_SIZES];
	struct cache_line *lines;	/* of all caches */
	struct branches branches;
	struct wrong_paths paths;
	/* Of the last windows: what a reference took, for the time in between. */
	ticks pace[TLB_SIZES];
	void (*waited)(bool huge, uint64_t address, ticks time);
	struct recency *walks[AGES_KINDS];	/* NULL: no core uses ages */
};

/*
 * `waited`: called as core.h says.  Returns 0, or -1 with errno ENOMEM.
 */
int timed_cores_init(struct timed_cores *timed, const struct window_options *options,
		     void (*waited)(bool huge, uint64_t address, ticks time));
void timed_cores_free(struct timed_cores *timed);

/*
 * A window of a copy of this process begins, when it has run for `cpu_ns` and has touched this many
 * bytes.
 */
void timed_cores_begin(struct timed_cores *timed, pid_t pid, uint64_t cpu_ns,
		       uint64_t touched_bytes);

/* All blocks are about to be freed: paths through them are forgotten. */
void timed_cores_forget(struct timed_cores *timed);

/* A machine of this page size walked at this time, in references: entries' ages follow from it. */
void timed_cores_walked(struct timed_cores *timed, enum tlb_size size, uint64_t address,
			uint64_t time);

/*
 * Was there no walk to this base page yet in this window?  False if that is not known: no core
 * uses ages.
 */
bool timed_cores_are_new_to(const struct timed_cores *timed, uint64_t address, uint64_t time);

/* The kernel has just cleared the base page of this address: its lines are in the near caches. */
void timed_cores_cleared(struct timed_cores *timed, uint64_t address);

/* The next reference to the address misses the first level of this size's core. */
void timed_cores_missed(struct timed_cores *timed, enum tlb_size size, uint64_t address, bool walk,
			uint64_t time);

/* A block was executed, and left for `next`. */
void timed_cores_execute(struct timed_cores *timed, const struct code_block *code,
			 const struct timed_block *block, const uint64_t *addresses, uint64_t next);

/* A block was executed before the cores see what happens: its lines are in the near caches. */
void timed_cores_touch(struct timed_cores *timed, const struct code_block *code,
		       const uint64_t *addresses);

/* The time of a core so far. */
static inline ticks timed_cores_time(const struct timed_cores *timed, uint32_t core)
{
	return timed->cores[core].retired;
}

#endif
