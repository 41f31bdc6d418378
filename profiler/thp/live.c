/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "reached.h"
#include "thread_stop.h"
#include "tracee.h"
#include "vma.h"

/* Since Linux 6.1 and 5.14; headers of the C library may be older. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Smaller areas never have a huge page. */
#define LEAST_BYTES (2u << 20)
/* What is done in one stop: a huge page takes a fraction of a millisecond to fill. */
#define AREAS_A_STOP 64u
#define PAGES_A_STOP 8u
/* Within this a thread has to stop. */
#define WAIT_MS 1000u

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

static int errno_of(enum injector_refusal refusal, int error)
{
	switch (refusal) {
	case REFUSED_GONE:
		return ESRCH;
	case REFUSED_PERMISSION:
		return EPERM;
	case REFUSED_TRACED:
	case REFUSED_STOPPED:
		return EBUSY;
	case REFUSED_32BIT:
	case REFUSED_NO_INSTRUCTION:
	case REFUSED_SECCOMP:
		return ENOTSUP;
	case REFUSED_BUSY:
	case REFUSED_SLEEPING:
		return ETIMEDOUT;
	default:
		return error ? error : EIO;
	}
}

/*
 * Stop a thread of the process, which can then make calls: the first that is where it can.  Returns
 * 0; or -1 with errno as live_ask().
 */
static int begin(pid_t pid, struct thread_stop *stop)
{
	enum injector_refusal refusal = REFUSED_GONE;
	const struct dirent *entry;
	char path[32];
	int32_t error = 0;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && refusal != INJECTED && (entry = readdir(threads)) != NULL) {
		const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread > 0)
			refusal = thread_stop_begin(stop, pid, thread, true, WAIT_MS, &error);
		if (refusal == REFUSED_PERMISSION)
			break;
	}
	if (threads)
		closedir(threads);
	if (refusal != INJECTED) {
		errno = errno_of(refusal, error);
		return -1;
	}
	if (thread_stop_prepare(stop) == 0)
		return 0;
	error = errno;
	thread_stop_restore(stop);
	thread_stop_detach(stop, 0);
	errno = error;
	return -1;
}

/* Returns 0; or -1 with errno, and the thread is gone. */
static int end(struct thread_stop *stop)
{
	const int rc = thread_stop_restore(stop);

	thread_stop_detach(stop, 0);
	errno = ESRCH;
	return rc;
}

/* Returns 0, or -1 with errno: ESRCH if the thread is gone. */
static int call(struct thread_stop *stop, long number, uint64_t a, uint64_t b, uint64_t c)
{
	const int64_t result = thread_stop_call(stop, number, (const uint64_t[6]){ a, b, c }, NULL);

	if (result < 0)
		errno = result == TRACEE_LOST ? ESRCH : (int)-result;
	return result < 0 ? -1 : 0;
}

static int advise(struct thread_stop *stop, uint64_t start, uint64_t bytes, int advice)
{
	return call(stop, SYS_madvise, start, bytes, (uint64_t)advice);
}

static void nap(uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	nanosleep(&time, NULL);
}

static int ask(pid_t pid, const struct areas *areas, struct live_result *result)
{
	struct thread_stop stop;

	for (size_t i = 0; i < areas->count;) {
		size_t last = i + AREAS_A_STOP < areas->count ? i + AREAS_A_STOP : areas->count;

		if (begin(pid, &stop) < 0)
			return -1;
		/* An area that is gone by now needs no huge pages. */
		for (; i < last; i++, result->requests++)
			advise(&stop, areas->all[i].vma.start,
			       areas->all[i].vma.end - areas->all[i].vma.start, MADV_HUGEPAGE);
		if (end(&stop) < 0)
			return -1;
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
 * is made writable, and it is asked again.  Returns 0, or -1 with errno.
 */
static int collapse_range(struct thread_stop *stop, uint64_t start, uint64_t last,
			  uint64_t huge_page_bytes)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

	if (advise(stop, start, last - start, MADV_COLLAPSE) == 0 || errno != EINVAL)
		return errno == ESRCH ? -1 : 0;
	for (uint64_t at = (start + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
	     at + huge_page_bytes <= last; at += huge_page_bytes)
		if (has_pages(stop->program, at, huge_page_bytes))
			advise(stop, at, page_bytes, MADV_POPULATE_WRITE);
	return advise(stop, start, last - start, MADV_COLLAPSE) < 0 &&
	       (errno == EINVAL || errno == ESRCH) ? -1 : 0;
}

/* Returns 1 when all is done, 0 if a signal ended it. */
static int collapse_area(pid_t pid, const struct vma *area, uint64_t huge_page_bytes)
{
	uint64_t step = PAGES_A_STOP * huge_page_bytes;
	struct thread_stop stop;

	for (uint64_t at = area->start / huge_page_bytes * huge_page_bytes; at < area->end;
	     at += step) {
		uint64_t start = at < area->start ? area->start : at;
		uint64_t last = at + step < area->end ? at + step : area->end;
		uint64_t begin_ns = clock_ns();

		if (was_signalled())
			return 0;
		if (begin(pid, &stop) < 0)
			return -1;
		collapse_range(&stop, start, last, huge_page_bytes);
		if (end(&stop) < 0)
			return -1;
		nap(clock_ns() - begin_ns);
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
	int rc = 1;

	if (ask(pid, areas, result) < 0)
		return -1;
	for (size_t i = 0; collapse && rc > 0 && i < areas->count; i++)
		if (is_dense(&areas->all[i]))
			rc = collapse_area(pid, &areas->all[i].vma, huge_page_bytes);
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

/* One stop of a thread, with all signals of ours blocked. */
static int in_one_stop(pid_t pid, int (*work)(struct thread_stop *stop, const uint64_t arguments[2]),
		       const uint64_t arguments[2], const char **failed)
{
	struct thread_stop stop;
	sigset_t all, before;
	int rc, error;

	sigfillset(&all);
	*failed = "cannot trace the process";
	if (sigprocmask(SIG_BLOCK, &all, &before) < 0)
		return -1;
	rc = begin(pid, &stop);
	if (rc == 0) {
		rc = work(&stop, arguments);
		error = errno;
		if (end(&stop) < 0)
			rc = -1;
		else
			errno = error;
	}
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return rc;
}

static int switch_thp(struct thread_stop *stop, const uint64_t arguments[2])
{
	return call(stop, SYS_prctl, PR_SET_THP_DISABLE, arguments[0], 0);
}

int live_switch(pid_t pid, int off, const char **failed)
{
	return in_one_stop(pid, switch_thp, (const uint64_t[2]){ (uint64_t)(off != 0) }, failed);
}

static int collapse_page(struct thread_stop *stop, const uint64_t arguments[2])
{
	return collapse_range(stop, arguments[0], arguments[0] + arguments[1], arguments[1]);
}

int live_collapse(pid_t pid, uint64_t start, uint64_t huge_page_bytes, const char **failed)
{
	return in_one_stop(pid, collapse_page, (const uint64_t[2]){ start, huge_page_bytes }, failed);
}
