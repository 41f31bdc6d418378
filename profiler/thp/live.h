/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Huge pages for the memory of a running process. */
#ifndef TLBCOST_THP_LIVE_H
#define TLBCOST_THP_LIVE_H

#include <stdint.h>
#include <sys/types.h>

/* What it had before and has after, and what asked. */
struct live_result {
	uint64_t anonymous_before_bytes, huge_before_bytes;
	uint64_t anonymous_bytes, huge_bytes;
	uint64_t requests;	/* areas that asked */
	int complete;		/* 0: a signal ended it before */
};

/*
 * One thread of the process is stopped several times, for milliseconds at
 * most, and calls madvise() for each writable area of anonymous memory but the
 * stacks; with `collapse`, what lies on base pages is moved to huge ones, too.
 * In between the process runs untraced, at least half of the time.  If this program is killed,
 * whenever, the thread returns by itself to what it did (trace/trampoline.h).
 * Returns 0; or -1 with errno and *failed, and the process is as it was, but for what asked
 * already: EPERM where it may not be traced, EBUSY if it is stopped or traced, ESRCH if it is gone,
 * ETIMEDOUT if none of its threads stops, ENOTSUP if it is a 32-bit one or filters its system calls.
 */
int live_ask(pid_t pid, int collapse, uint64_t huge_page_bytes, struct live_result *result,
	     const char **failed);

/*
 * The huge page of `huge_page_bytes` at `start` is made of the base pages that the process has there:
 * one stop of a thread.  Returns like live_ask(); EINVAL if the kernel refuses.
 */
int live_collapse(pid_t pid, uint64_t start, uint64_t huge_page_bytes, const char **failed);

/*
 * The process switches transparent huge pages off for itself, or on again (prctl()): what it has
 * stays as it is.  One stop, of a thread.  Returns like live_ask(), but EPERM and the like also if
 * the kernel refuses.
 */
int live_switch(pid_t pid, int off, const char **failed);

#endif
