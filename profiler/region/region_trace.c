/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "region_trace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KCMP_VM 1	/* linux/kcmp.h */

int region_attach(pid_t pid, void *context)
{
	struct region *region = context;
	const long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			     PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;

	region->pid = pid;
	return ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) < 0 ? -1 : 0;
}

static void begin(struct region *region)
{
	if (reading_take(&region->begun, region->pid) < 0)
		region->unknown = 1;
	region->last = region->begun;
	region->inside = 1;
	region->begins++;
}

static void end(struct region *region, const struct reading *now)
{
	reading_add(&region->sum, &region->begun, now);
	region->inside = 0;
	region->ended++;
}

static void end_now(struct region *region)
{
	struct reading now;

	if (reading_take(&now, region->pid) < 0) {
		region->unknown = 1;
		now = region->last;
	}
	end(region, &now);
}

/* The program's libraries are there: wait for its start. */
static int at_entry(struct region *region, pid_t tid)
{
	if (breakpoints_clear(&region->entry, tid) < 0 ||
	    breakpoints_find(&region->start, region->pid, region->starts, region->start_count) < 0 ||
	    breakpoints_find(&region->end, region->pid, region->ends, region->end_count) < 0)
		return -1;
	return breakpoints_set(&region->start, tid);
}

static int at_start(struct region *region, pid_t tid)
{
	if (breakpoints_clear(&region->start, tid) < 0)
		return -1;
	begin(region);
	return region->begins > MOST_TIMES ? 0 : breakpoints_set(&region->end, tid);
}

static int at_end(struct region *region, pid_t tid)
{
	if (breakpoints_clear(&region->end, tid) < 0)
		return -1;
	end_now(region);
	return breakpoints_set(&region->start, tid);
}

/* Another program: its memory has no breakpoints. */
static int executed(struct region *region)
{
	/* The times of a process go on through it. */
	if (region->inside && !region->end_count)
		end_now(region);
	memset(&region->start, 0, sizeof(region->start));
	memset(&region->end, 0, sizeof(region->end));
	breakpoints_one(&region->entry, entry_of(region->pid));
	return breakpoints_set(&region->entry, region->pid);
}

/* Returns 1: the stop was at one of the region's places.  0: it was not; -1 with errno. */
static int trapped(struct region *region, pid_t tid)
{
	const uint64_t address = breakpoint_hit(tid);
	const int entry = breakpoints_have(&region->entry, address);
	const int start = breakpoints_have(&region->start, address);
	const int stop = breakpoints_have(&region->end, address);
	int rc = 0;

	if (!address || !(entry || start || stop))
		return 0;
	/* Two threads may come to it at once: the second finds the code as it was. */
	if (entry && region->entry.at[0].set)
		rc = at_entry(region, tid);
	else if (start && !region->inside)
		rc = at_start(region, tid);
	else if (stop && region->inside)
		rc = at_end(region, tid);
	return rc < 0 || breakpoint_back(tid, address) < 0 ? -1 : 1;
}

static int is_thread(const struct region *region, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)region->pid, (int)tid);
	return access(path, F_OK) == 0;
}

/* A new process is not followed.  One of vfork() shares the memory, with its breakpoints. */
static void let_go(const struct region *region, pid_t child)
{
	if (syscall(SYS_kcmp, region->pid, child, KCMP_VM, 0, 0) != 0) {
		breakpoints_clear_copy(&region->entry, child);
		breakpoints_clear_copy(&region->start, child);
		breakpoints_clear_copy(&region->end, child);
	}
	ptrace(PTRACE_DETACH, child, NULL, NULL);
}

static int resume(pid_t tid, int signal)
{
	/* It may have been killed while it was stopped. */
	return ptrace(PTRACE_CONT, tid, NULL, (void *)(long)signal) < 0 && errno != ESRCH ? -1 : 0;
}

static int stopped(struct region *region, pid_t tid, int status)
{
	const int event = status >> 8, signal = status & 0x7f;
	int rc = 0;

	if (!is_thread(region, tid)) {
		let_go(region, tid);
		return 0;
	}
	switch (event) {
	case 0:
		rc = signal == SIGTRAP ? trapped(region, tid) : 0;
		return rc < 0 && errno != ESRCH ? -1 : resume(tid, rc > 0 ? 0 : signal);
	case PTRACE_EVENT_STOP:
		if (signal == SIGTRAP)
			break;
		/* Its process is stopped, until a SIGCONT. */
		return ptrace(PTRACE_LISTEN, tid, NULL, NULL) < 0 && errno != ESRCH ? -1 : 0;
	case PTRACE_EVENT_EXEC:
		rc = executed(region);
		break;
	case PTRACE_EVENT_EXIT:
		/* Whichever is the last; what unmapping takes after it is not the phase's. */
		if (region->inside && reading_take(&region->last, region->pid) < 0)
			region->unknown = 1;
		break;
	default:
		break;
	}
	return rc < 0 && errno != ESRCH ? -1 : resume(tid, 0);
}

int region_stops(void *context)
{
	struct region *region = context;
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0)
			return errno == ECHILD ? 0 : -1;
		/* The end of the program itself is for the launcher. */
		if (!info.si_pid ||
		    (info.si_pid == region->pid && info.si_code != CLD_TRAPPED &&
		     info.si_code != CLD_STOPPED))
			return 0;
		if (waitid(P_PID, (id_t)info.si_pid, &info,
			   WEXITED | WSTOPPED | WNOHANG | __WALL) < 0)
			return -1;
		if ((info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) &&
		    stopped(region, info.si_pid, info.si_status) < 0)
			return -1;
	}
}

void region_finish(struct region *region)
{
	if (region->inside && !region->end_count)
		end(region, &region->last);
}
