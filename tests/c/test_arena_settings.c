/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are pages proven that the system provides only while a test changes its settings? */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "emulated.h"
#include "sysfile.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define POOLS "/sys/kernel/mm/hugepages/"

static size_t base(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Write a setting of the real system.  Returns 0, or -1. */
static int put_setting(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return -1;
	fputs(text, file);
	return fclose(file);
}

/* The exit code of a body that the kernel gave no pages of its size. */
enum { NO_PAGES = 77 };

/*
 * Run the body in a child, so that whatever becomes of it, we go on and put back settings.
 * Returns 0, or NO_PAGES.
 */
static int run_apart(void (*body)(void))
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old[3];
	int status = -1;
	pid_t child;

	fflush(stdout);
	for (unsigned i = 0; i < 3; i++)
		sigaction(signals[i], &ignore, &old[i]);
	child = fork();
	if (child == 0) {
		for (unsigned i = 0; i < 3; i++)
			sigaction(signals[i], &old[i], NULL);
		body();
		fflush(stdout);
		_exit(check_failures != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_PAGES));
	for (unsigned i = 0; i < 3; i++)
		sigaction(signals[i], &old[i], NULL);
	return WIFEXITED(status) && WEXITSTATUS(status) == NO_PAGES ? NO_PAGES : 0;
}

/* The multi-size pages of the test are this many base pages. */
static const size_t mthp_pages[] = { 4, 16 };

static void setting_of(char *path, size_t size, unsigned i)
{
	snprintf(path, size, THP "hugepages-%zukB/enabled", mthp_pages[i] * base() >> 10);
}

/* Page faults that got no page of the size, in the whole system; 0 if it is not reported. */
static uint64_t fallbacks_of(unsigned i)
{
	uint64_t count;

	if (sysfile_number(&count, THP "hugepages-%zukB/stats/anon_fault_fallback",
			   mthp_pages[i] * base() >> 10) != 0)
		return 0;
	return count;
}

static void mthp_body(void)
{
	enum { PAGES = 500 };
	struct rusage before, after;
	struct arena arena;
	uint64_t fallbacks;
	size_t bytes;

	for (unsigned i = 0; i < 2; i++) {
		bytes = mthp_pages[i] * base();
		CHECK_EQUAL(arena_open(&arena, ARENA_MTHP, bytes, PAGES), 0);
		getrusage(RUSAGE_SELF, &before);
		fallbacks = fallbacks_of(i);
		if (arena_extend(&arena, PAGES, UINT64_MAX) != 0) {
			CHECK_EQUAL(errno, ENODATA);
			/* The kernel itself tells that it had none to give. */
			CHECK(fallbacks_of(i) > fallbacks);
			_exit(check_failures ? 1 : NO_PAGES);
		}
		getrusage(RUSAGE_SELF, &after);
		CHECK_EQUAL(arena.pages, PAGES);
		CHECK_EQUAL(arena_holds(&arena), 1);
		/* Larger pages would take fewer faults; a sanitizer's own ones come on top. */
		CHECK(after.ru_minflt - before.ru_minflt >= PAGES);
		/* A page that lost a part spoils the proof. */
		CHECK_EQUAL(madvise(arena.memory + 7 * bytes + base(), base(), MADV_DONTNEED), 0);
		CHECK_EQUAL(arena_holds(&arena), 0);
		arena_close(&arena);
	}
}

TEST(multi_size_pages)
{
	char path[128], old[2][64], *end;
	int rc;

	SKIP_IF_EMULATED();
	for (unsigned i = 0; i < 2; i++) {
		setting_of(path, sizeof(path), i);
		if (sysfile_line(old[i], sizeof(old[i]), "%s", path) != 0)
			CHECK_SKIP("this kernel has no multi-size transparent huge pages");
		if (access(path, W_OK) != 0)
			CHECK_SKIP("needs root, to allow multi-size pages for a moment");
	}
	for (unsigned i = 0; i < 2; i++) {
		setting_of(path, sizeof(path), i);
		CHECK_EQUAL(put_setting(path, "madvise"), 0);
	}
	/* The larger of the two must not take the place of the smaller. */
	rc = run_apart(mthp_body);
	for (unsigned i = 0; i < 2; i++) {
		setting_of(path, sizeof(path), i);
		end = strchr(old[i], ']');
		CHECK(end != NULL);
		if (end)
			*end = '\0';
		CHECK_EQUAL(put_setting(path, strchr(old[i], '[') + 1), 0);
	}
	if (rc == NO_PAGES)
		CHECK_SKIP("the kernel has not enough memory in pieces of these sizes");
}

/* The pool of the test under way. */
static size_t pool_bytes, pool_pages;

static void hugetlb_body(void)
{
	struct arena arena;
	struct arena_proof proof;

	CHECK_EQUAL(arena_open(&arena, ARENA_HUGETLB, pool_bytes, pool_pages), 0);
	CHECK_EQUAL((uintptr_t)arena.memory % pool_bytes, 0);
	CHECK_EQUAL(arena_extend(&arena, pool_pages, UINT64_MAX), 0);
	CHECK_EQUAL(arena.pages, pool_pages);
	CHECK_EQUAL(arena_prove(&arena, &proof), 0);
	CHECK_EQUAL(proof.hugetlb, pool_bytes * pool_pages);
	CHECK_EQUAL(proof.kernel_page, pool_bytes);
	CHECK_EQUAL(arena_holds(&arena), 1);
	arena_close(&arena);
	/* More than the pool has is refused when asked for, not by SIGBUS when touched. */
	CHECK_EQUAL(arena_open(&arena, ARENA_HUGETLB, pool_bytes, (size_t)1 << 20), -1);
	CHECK_EQUAL(errno, ENOMEM);
}

static void with_pool(size_t bytes, size_t pages)
{
	uint64_t old, got = 0, free_bytes;
	char path[128], text[32];

	SKIP_IF_EMULATED();
	snprintf(path, sizeof(path), POOLS "hugepages-%zukB/nr_hugepages", bytes >> 10);
	if (sysfile_number(&old, "%s", path) != 0)
		CHECK_SKIP("this kernel or CPU has no pool of such pages");
	if (access(path, W_OK) != 0)
		CHECK_SKIP("needs root, to fill the pool for a moment");
	if (sysfile_meminfo("MemAvailable", &free_bytes) != 0 || free_bytes / 4 < bytes * pages)
		CHECK_SKIP("four times the memory of the pool is not free");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)old + pages);
	CHECK_EQUAL(put_setting(path, text), 0);
	sysfile_number(&got, "%s", path);
	if (got == old + pages) {
		pool_bytes = bytes;
		pool_pages = pages;
		run_apart(hugetlb_body);
	}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)old);
	CHECK_EQUAL(put_setting(path, text), 0);
	if (got != old + pages)
		CHECK_SKIP("the kernel found no memory in one piece to fill the pool");
}

TEST(pool_of_huge_pages)
{
	uint64_t bytes;

	if (sysfile_meminfo("Hugepagesize", &bytes) != 0)
		CHECK_SKIP("this kernel has no hugetlb pages");
	with_pool((size_t)bytes, 8);
}

TEST(pool_of_giant_pages)
{
	with_pool((size_t)1 << 30, 1);
}

CHECK_MAIN
