/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "injection.h"
#include "live_stop.h"
#include "reached.h"
#include "request.h"
#include "vma.h"

/* Smaller areas never have a huge page. */
#define LEAST_BYTES (2u << 20)
/* What is done in one stop: a huge page takes a fraction of a millisecond to fill. */
#define AREAS_A_STOP 64u
#define PAGES_A_STOP 8u

struct area {
	struct vma vma;
	uint64_t present_bytes;	/* on pages of all sizes */
};

struct areas {
	struct area *all;
	size_t count, capacity;
};

static int is_ours(const struct vma *vma)
{
	return vma->anonymous && vma->writable && !vma->shared && !vma->stack &&
	       vma->end - vma->start >= LEAST_BYTES;
}

static int add(struct areas *areas, const struct vma *vma)
{
	size_t capacity = areas->capacity ? 2 * areas->capacity : 64;
	struct area *all;

	if (areas->count == areas->capacity) {
		all = realloc(areas->all, capacity * sizeof(*all));
		if (!all)
			return -1;
		areas->all = all;
		areas->capacity = capacity;
	}
	areas->all[areas->count++] = (struct area){ .vma = *vma };
	return 0;
}

static int list_areas(pid_t pid, struct areas *areas)
{
	struct vma vma = { .start = 0 };
	char path[32], line[512];
	uint64_t kilobytes;
	int rc = 0;
	FILE *smaps;

	memset(areas, 0, sizeof(*areas));
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	smaps = fopen(path, "re");
	if (!smaps)
		return -1;
	while (rc == 0 && fgets(line, sizeof(line), smaps)) {
		if (vma_parse(line, &vma)) {
			if (is_ours(&vma))
				rc = add(areas, &vma);
		} else if (areas->count && is_ours(&vma) &&
			   sscanf(line, "Anonymous: %" SCNu64, &kilobytes) == 1) {
			areas->all[areas->count - 1].present_bytes = kilobytes << 10;
		}
	}
	fclose(smaps);
	return rc;
}

/* One that ends by itself needs no huge pages. */
static int lost(void)
{
	errno = ESRCH;
	return -1;
}

static int ask(pid_t pid, const struct areas *areas, uint64_t instruction,
	       struct live_result *result)
{
	struct injection injection;

	for (size_t i = 0; i < areas->count;) {
		size_t end = i + AREAS_A_STOP < areas->count ? i + AREAS_A_STOP : areas->count;

		if (live_stop(pid, instruction, &injection) < 0)
			return -1;
		for (; i < end; i++, result->requests++)
			if (request_huge(&injection, areas->all[i].vma.start,
					 areas->all[i].vma.end) < 0)
				return lost();
		if (live_let_go(&injection) < 0)
			return lost();
	}
	return 0;
}

static int was_signalled(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
		sigismember(&pending, SIGHUP) == 1);
}

/* A huge page is made only where the process has a base page. */
static int has_pages(pid_t pid, uint64_t start, uint64_t bytes)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), present = UINT64_C(1) << 63;
	uint64_t entry = 0;
	char path[32];
	int found = 0, file;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	for (uint64_t at = start; file >= 0 && !found && at < start + bytes; at += page_bytes)
		found = pread(file, &entry, sizeof(entry), (off_t)(at / page_bytes * sizeof(entry))) ==
			sizeof(entry) && (entry & present);
	if (file >= 0)
		close(file);
	return found;
}

/*
 * Before Linux 6.18 the kernel makes no huge page of base pages that are all read-only in the page
 * tables, as all are after a fork() until they are written.  Where it refuses, one base page of each
 * is made writable, and it is asked again.  Returns like request_collapse().
 */
static int collapse_range(struct injection *injection, uint64_t start, uint64_t end,
			  uint64_t huge_page_bytes)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const int rc = request_collapse(injection, start, end);

	if (rc <= 0)
		return rc;
	for (uint64_t at = (start + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
	     at + huge_page_bytes <= end; at += huge_page_bytes)
		if (has_pages(injection->tid, at, huge_page_bytes) &&
		    request_writable(injection, at, at + page_bytes) < 0)
			return -1;
	return request_collapse(injection, start, end);
}

/* Returns 1 when all is done, 0 if a signal ended it. */
static int collapse_area(pid_t pid, const struct vma *area, uint64_t instruction,
			 uint64_t huge_page_bytes)
{
	uint64_t step = PAGES_A_STOP * huge_page_bytes;
	struct injection injection;

	for (uint64_t at = area->start / huge_page_bytes * huge_page_bytes; at < area->end;
	     at += step) {
		uint64_t start = at < area->start ? area->start : at;
		uint64_t end = at + step < area->end ? at + step : area->end;
		uint64_t begin = clock_ns();

		if (was_signalled())
			return 0;
		if (live_stop(pid, instruction, &injection) < 0)
			return -1;
		if (collapse_range(&injection, start, end, huge_page_bytes) < 0 ||
		    live_let_go(&injection) < 0)
			return lost();
		live_nap(clock_ns() - begin);
	}
	return 1;
}

/* A reservation of terabytes, such as a sanitizer's, would take for ever and grow a lot. */
static int is_dense(const struct area *area)
{
	return area->present_bytes >= (area->vma.end - area->vma.start) / 8;
}

static int ask_all(pid_t pid, int collapse, uint64_t huge_page_bytes, const struct areas *areas,
		   struct live_result *result)
{
	uint64_t instruction;
	int rc = 1;

	if (live_find_instruction(pid, &instruction) < 0 || ask(pid, areas, instruction, result) < 0)
		return -1;
	for (size_t i = 0; collapse && rc > 0 && i < areas->count; i++)
		if (is_dense(&areas->all[i]))
			rc = collapse_area(pid, &areas->all[i].vma, instruction, huge_page_bytes);
	result->complete = rc > 0;
	return rc < 0 ? -1 : 0;
}

int live_ask(pid_t pid, int collapse, uint64_t huge_page_bytes, struct live_result *result,
	     const char **failed)
{
	struct areas areas = { .all = NULL };
	sigset_t all, before;
	int rc, error;

	memset(result, 0, sizeof(*result));
	sigfillset(&all);
	*failed = "cannot read the memory of the process";
	if (sigprocmask(SIG_BLOCK, &all, &before) < 0)
		return -1;
	rc = reached_of(pid, &result->anonymous_before_bytes, &result->huge_before_bytes);
	if (rc == 0)
		rc = list_areas(pid, &areas);
	if (rc == 0) {
		*failed = "cannot trace the process";
		rc = ask_all(pid, collapse, huge_page_bytes, &areas, result);
	}
	error = errno;
	free(areas.all);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	if (rc < 0)
		return -1;
	return reached_of(pid, &result->anonymous_bytes, &result->huge_bytes);
}

/* One stop of a thread, in which it makes a call; its result is in *result. */
typedef int one_call(struct injection *injection, const uint64_t arguments[3], int64_t *result);

static int with_one_stop(pid_t pid, one_call *call, const uint64_t arguments[3], const char **failed)
{
	struct injection injection;
	uint64_t instruction;
	sigset_t all, before;
	int64_t result = 0;
	int rc, error;

	sigfillset(&all);
	*failed = "cannot trace the process";
	if (sigprocmask(SIG_BLOCK, &all, &before) < 0)
		return -1;
	rc = live_find_instruction(pid, &instruction);
	if (rc == 0)
		rc = live_stop(pid, instruction, &injection);
	if (rc == 0) {
		rc = call(&injection, arguments, &result);
		if (live_let_go(&injection) < 0 || rc < 0)
			rc = lost();
	}
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	if (rc == 0 && result < 0) {
		errno = (int)-result;
		rc = -1;
	}
	return rc;
}

static int call_prctl(struct injection *injection, const uint64_t arguments[3], int64_t *result)
{
	return injection_call(injection, SYS_prctl, arguments, result);
}

int live_switch(pid_t pid, int off, const char **failed)
{
	const uint64_t arguments[3] = { PR_SET_THP_DISABLE, (uint64_t)(off != 0), 0 };

	return with_one_stop(pid, call_prctl, arguments, failed);
}

static int call_collapse(struct injection *injection, const uint64_t arguments[3], int64_t *result)
{
	const int rc = collapse_range(injection, arguments[0], arguments[0] + arguments[1],
				      arguments[1]);

	*result = rc > 0 ? -EINVAL : 0;
	return rc < 0 ? -1 : 0;
}

int live_collapse(pid_t pid, uint64_t start, uint64_t huge_page_bytes, const char **failed)
{
	const uint64_t arguments[3] = { start, huge_page_bytes, 0 };

	return with_one_stop(pid, call_collapse, arguments, failed);
}
