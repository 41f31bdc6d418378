/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the page size that was asked for proven, and refused when it is another one? */
#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "emulated.h"
#include "sysfile.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"

static size_t base(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t thp_bytes(void)
{
	uint64_t size;
	char mode[64];

	if (sysfile_number(&size, THP "hpage_pmd_size") != 0 ||
	    sysfile_line(mode, sizeof(mode), THP "enabled") != 0 ||
	    strstr(mode, "[never]") || size > 4u << 20)
		return 0;
	return (size_t)size;
}

TEST(base_pages)
{
	struct arena arena;
	struct arena_proof proof;

	SKIP_UNLESS_BASE_PAGE_IS_REAL();
	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, base(), 3000), 0);
	CHECK_EQUAL(arena.pages, 0);
	CHECK_EQUAL(arena_extend(&arena, 1000, UINT64_MAX), 0);
	CHECK_EQUAL(arena.pages, 1000);
	CHECK_EQUAL(arena_extend(&arena, 3000, UINT64_MAX), 0);
	CHECK_EQUAL(arena.pages, 3000);
	CHECK_EQUAL(arena_holds(&arena), 1);
	CHECK_EQUAL(arena_prove(&arena, &proof), 0);
	CHECK_EQUAL(proof.resident, 3000 * base());
	CHECK_EQUAL(proof.transparent_huge, 0);
	CHECK_EQUAL(proof.kernel_page, base());
	arena_close(&arena);
	arena_close(&arena);
}

TEST(huge_pages)
{
	size_t size = thp_bytes();
	struct arena arena;
	struct arena_proof proof;
	int rc;

	SKIP_IF_EMULATED();
	if (!size)
		CHECK_SKIP("transparent huge pages are off, absent or larger than 4 MiB");
	CHECK_EQUAL(arena_open(&arena, ARENA_THP, size, 8), 0);
	CHECK_EQUAL((uintptr_t)arena.memory % size, 0);
	rc = arena_extend(&arena, 8, UINT64_MAX);
	if (rc != 0 && errno == ENODATA) {
		arena_close(&arena);
		CHECK_SKIP("the kernel has no huge page to give");
	}
	CHECK_EQUAL(arena_prove(&arena, &proof), 0);
	CHECK_EQUAL(proof.transparent_huge, 8 * size);
	CHECK_EQUAL(proof.resident, 8 * size);
	CHECK_EQUAL(arena_holds(&arena), 1);
	/* One page of eight split into base pages spoils the proof. */
	CHECK_EQUAL(madvise(arena.memory + size + base(), base(), MADV_DONTNEED), 0);
	CHECK_EQUAL(arena_holds(&arena), 0);
	arena_close(&arena);
}

TEST(wrong_pages_are_refused)
{
	size_t size = thp_bytes();
	struct arena arena;

	SKIP_IF_EMULATED();
	if (!size)
		CHECK_SKIP("transparent huge pages are off, absent or larger than 4 MiB");
	CHECK_EQUAL(arena_open(&arena, ARENA_THP, size, 8), 0);
	/* What a kernel without a free huge page would do. */
	CHECK_EQUAL(madvise(arena.memory, 8 * size, MADV_NOHUGEPAGE), 0);
	CHECK_EQUAL(arena_extend(&arena, 8, UINT64_MAX), -1);
	CHECK_EQUAL(errno, ENODATA);
	CHECK_EQUAL(arena.pages, 0);
	arena_close(&arena);
}

TEST(multi_size_pages_refused)
{
	struct arena arena;
	int rc = arena_open(&arena, ARENA_MTHP, 4 * base(), 8);

	/* QEMU 7.2 and 10 take the advice and ignore it. */
	if (rc != 0 && errno == EINVAL && emulated())
		CHECK_SKIP("this emulator refuses wishes for huge pages");
	/* Advice against huge pages, as if the size were not allowed. */
	CHECK_EQUAL(rc, 0);
	CHECK_EQUAL(madvise(arena.memory, 32 * base(), MADV_NOHUGEPAGE), 0);
	CHECK_EQUAL(arena_extend(&arena, 8, UINT64_MAX), -1);
	CHECK_EQUAL(errno, ENODATA);
	CHECK_EQUAL(arena.pages, 0);
	arena_close(&arena);
	CHECK_EQUAL(arena_open(&arena, ARENA_MTHP, base(), 8), -1);
	CHECK_EQUAL(errno, EINVAL);
}

TEST(impossible_sizes)
{
	struct arena arena;

	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, base(), 0), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, 2 * base(), 1), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(arena_open(&arena, ARENA_THP, 3 * base(), 1), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, base(), SIZE_MAX / base()), -1);
	CHECK_EQUAL(errno, ENOMEM);
	arena_close(&arena);
}

TEST(ends_in_time)
{
	struct arena arena;

	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, base(), 100), 0);
	CHECK_EQUAL(arena_extend(&arena, 100, 0), 0);
	CHECK_EQUAL(arena.pages, 0);
	CHECK_EQUAL(arena_extend(&arena, 101, UINT64_MAX), -1);
	CHECK_EQUAL(errno, EINVAL);
	arena_close(&arena);
}

CHECK_MAIN
