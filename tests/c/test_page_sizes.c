/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the larger page sizes of made-up machines found, with what allows them? */
#include "check.h"

#include <string.h>

#include "made_up.h"
#include "page_sizes.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define POOLS "/sys/kernel/mm/hugepages/"
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static const struct page_size *size_of(struct page_sizes *sizes, size_t bytes,
				       enum arena_method method)
{
	static const struct page_size none = { .reason = "no offer" };
	const struct page_size *size = page_sizes_pick(sizes, bytes, method);

	CHECK(size != NULL);
	return size ? size : &none;
}

TEST(nothing_at_all)
{
	struct page_sizes sizes;

	start();
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(sizes.count, 0);
	CHECK_EQUAL(page_sizes_huge_bytes(), 0);
	CHECK(page_sizes_pick(&sizes, 2 * MIB, ARENA_BASE) == NULL);
	finish();
}

TEST(old_kernel)
{
	struct page_sizes sizes;

	/* One file for all transparent pages; pools of two sizes. */
	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "60\n");
	put(POOLS "hugepages-2048kB/resv_hugepages", "10\n");
	put(POOLS "hugepages-1048576kB/free_hugepages", "0\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(sizes.count, 3);
	CHECK_EQUAL(page_sizes_huge_bytes(), 2 * MIB);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK(size_of(&sizes, 2 * MIB, ARENA_BASE)->available_bytes == UINT64_MAX);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_HUGETLB)->available_bytes, 100 * MIB);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_HUGETLB)->method, ARENA_HUGETLB);
	CHECK_EQUAL(size_of(&sizes, GIB, ARENA_BASE)->available_bytes, 0);
	CHECK(strstr(size_of(&sizes, GIB, ARENA_BASE)->reason,
		     ">" POOLS "hugepages-1048576kB/nr_hugepages"));
	CHECK(page_sizes_pick(&sizes, GIB, ARENA_THP) == NULL);
	CHECK(page_sizes_pick(&sizes, 64 * KIB, ARENA_BASE) == NULL);
	finish();
}

TEST(pool_in_place_of_transparent)
{
	struct page_sizes sizes;

	start();
	put(THP "enabled", "always madvise [never]\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "0\n");
	page_sizes_find(&sizes, 4 * KIB);
	/* With neither, what a user can do without a pool's size comes first. */
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK(strstr(size_of(&sizes, 2 * MIB, ARENA_BASE)->reason, "madvise >" THP "enabled"));
	put(POOLS "hugepages-2048kB/free_hugepages", "3\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->method, ARENA_HUGETLB);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->available_bytes, 6 * MIB);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->reason[0], '\0');
	finish();
}

TEST(sizes_with_settings_of_their_own)
{
	struct page_sizes sizes;

	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(THP "hugepages-16kB/enabled", "always inherit madvise [never]\n");
	put(THP "hugepages-32kB/enabled", "always [inherit] madvise never\n");
	put(THP "hugepages-64kB/enabled", "always inherit [madvise] never\n");
	put(THP "hugepages-2048kB/enabled", "always [inherit] madvise never\n");
	/* Shared memory alone can have these. */
	put(THP "hugepages-8kB/shmem_enabled", "[never]\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(sizes.count, 4);
	CHECK_EQUAL(sizes.list[0].page_bytes, 16 * KIB);
	CHECK_EQUAL(sizes.list[3].page_bytes, 2 * MIB);
	CHECK_EQUAL(sizes.list[3].method, ARENA_THP);
	CHECK(sizes.list[3].available_bytes == UINT64_MAX);
	CHECK_EQUAL(sizes.list[0].available_bytes, 0);
	CHECK(strstr(sizes.list[0].reason, "madvise >" THP "hugepages-16kB/enabled"));
	CHECK_EQUAL(size_of(&sizes, 32 * KIB, ARENA_THP)->method, ARENA_MTHP);
	CHECK(sizes.list[1].available_bytes == UINT64_MAX);
	/* What all inherit changes those that inherit, and no others. */
	put(THP "enabled", "always madvise [never]\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(sizes.list[1].available_bytes, 0);
	CHECK(strstr(sizes.list[1].reason, "madvise >" THP "enabled"));
	CHECK(sizes.list[2].available_bytes == UINT64_MAX);
	CHECK(strstr(sizes.list[3].reason, "madvise >" THP "enabled"));
	/* The huge page's own file has the last word on it too. */
	put(THP "hugepages-2048kB/enabled", "[always] inherit madvise never\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK(sizes.list[3].available_bytes == UINT64_MAX);
	finish();
}

TEST(arm_with_64k_pages)
{
	struct page_sizes sizes;

	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "536870912\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "4\n");
	put(POOLS "hugepages-524288kB/free_hugepages", "0\n");
	put(POOLS "hugepages-16777216kB/free_hugepages", "0\n");
	page_sizes_find(&sizes, 64 * KIB);
	CHECK_EQUAL(sizes.count, 4);
	CHECK_EQUAL(page_sizes_huge_bytes(), 512 * MIB);
	CHECK_EQUAL(size_of(&sizes, 512 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK_EQUAL(size_of(&sizes, 2 * MIB, ARENA_BASE)->available_bytes, 8 * MIB);
	CHECK_EQUAL(size_of(&sizes, 16 * GIB, ARENA_BASE)->available_bytes, 0);
	/* The base page itself is not a larger one. */
	CHECK(page_sizes_pick(&sizes, 64 * KIB, ARENA_BASE) == NULL);
	finish();
}

TEST(no_transparent_pages)
{
	struct page_sizes sizes;

	start();
	put("/proc/meminfo", "Hugepagesize:       2048 kB\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "garbage\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(page_sizes_huge_bytes(), 2 * MIB);
	CHECK_EQUAL(sizes.count, 0);
	put(POOLS "hugepages-2048kB/free_hugepages", "5\n");
	put(POOLS "hugepages-2048kB/resv_hugepages", "7\n");
	page_sizes_find(&sizes, 4 * KIB);
	CHECK_EQUAL(sizes.count, 1);
	CHECK_EQUAL(sizes.list[0].available_bytes, 0);
	finish();
}

CHECK_MAIN
