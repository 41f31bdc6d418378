/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the larger page sizes of made-up machines found, with what allows them? */
#include "check.h"

#include <string.h>

#include "made_up.h"
#include "offers.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define POOLS "/sys/kernel/mm/hugepages/"
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static const struct offer *offer_of(struct offers *offers, size_t bytes, enum arena_method method)
{
	static const struct offer none = { .reason = "no offer" };
	const struct offer *offer = offers_pick(offers, bytes, method);

	CHECK(offer != NULL);
	return offer ? offer : &none;
}

static void nothing_at_all(void)
{
	struct offers offers;

	start();
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers.count, 0);
	CHECK_EQUAL(offers_huge_bytes(), 0);
	CHECK(offers_pick(&offers, 2 * MIB, ARENA_BASE) == NULL);
	finish();
}

static void old_kernel(void)
{
	struct offers offers;

	/* One file for all transparent pages; pools of two sizes. */
	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "60\n");
	put(POOLS "hugepages-2048kB/resv_hugepages", "10\n");
	put(POOLS "hugepages-1048576kB/free_hugepages", "0\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers.count, 3);
	CHECK_EQUAL(offers_huge_bytes(), 2 * MIB);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK(offer_of(&offers, 2 * MIB, ARENA_BASE)->available_bytes == UINT64_MAX);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_HUGETLB)->available_bytes, 100 * MIB);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_HUGETLB)->method, ARENA_HUGETLB);
	CHECK_EQUAL(offer_of(&offers, GIB, ARENA_BASE)->available_bytes, 0);
	CHECK(strstr(offer_of(&offers, GIB, ARENA_BASE)->reason,
		     ">" POOLS "hugepages-1048576kB/nr_hugepages"));
	CHECK(offers_pick(&offers, GIB, ARENA_THP) == NULL);
	CHECK(offers_pick(&offers, 64 * KIB, ARENA_BASE) == NULL);
	finish();
}

static void pool_in_place_of_transparent(void)
{
	struct offers offers;

	start();
	put(THP "enabled", "always madvise [never]\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "0\n");
	offers_find(&offers, 4 * KIB);
	/* With neither, what a user can do without a pool's size comes first. */
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK(strstr(offer_of(&offers, 2 * MIB, ARENA_BASE)->reason, "madvise >" THP "enabled"));
	put(POOLS "hugepages-2048kB/free_hugepages", "3\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->method, ARENA_HUGETLB);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->available_bytes, 6 * MIB);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->reason[0], '\0');
	finish();
}

static void sizes_with_settings_of_their_own(void)
{
	struct offers offers;

	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "2097152\n");
	put(THP "hugepages-16kB/enabled", "always inherit madvise [never]\n");
	put(THP "hugepages-32kB/enabled", "always [inherit] madvise never\n");
	put(THP "hugepages-64kB/enabled", "always inherit [madvise] never\n");
	put(THP "hugepages-2048kB/enabled", "always [inherit] madvise never\n");
	/* Shared memory alone can have these. */
	put(THP "hugepages-8kB/shmem_enabled", "[never]\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers.count, 4);
	CHECK_EQUAL(offers.list[0].page_bytes, 16 * KIB);
	CHECK_EQUAL(offers.list[3].page_bytes, 2 * MIB);
	CHECK_EQUAL(offers.list[3].method, ARENA_THP);
	CHECK(offers.list[3].available_bytes == UINT64_MAX);
	CHECK_EQUAL(offers.list[0].available_bytes, 0);
	CHECK(strstr(offers.list[0].reason, "madvise >" THP "hugepages-16kB/enabled"));
	CHECK_EQUAL(offer_of(&offers, 32 * KIB, ARENA_THP)->method, ARENA_MTHP);
	CHECK(offers.list[1].available_bytes == UINT64_MAX);
	/* What all inherit changes those that inherit, and no others. */
	put(THP "enabled", "always madvise [never]\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers.list[1].available_bytes, 0);
	CHECK(strstr(offers.list[1].reason, "madvise >" THP "enabled"));
	CHECK(offers.list[2].available_bytes == UINT64_MAX);
	CHECK(strstr(offers.list[3].reason, "madvise >" THP "enabled"));
	/* The huge page's own file has the last word on it too. */
	put(THP "hugepages-2048kB/enabled", "[always] inherit madvise never\n");
	offers_find(&offers, 4 * KIB);
	CHECK(offers.list[3].available_bytes == UINT64_MAX);
	finish();
}

static void arm_with_64k_pages(void)
{
	struct offers offers;

	start();
	put(THP "enabled", "always [madvise] never\n");
	put(THP "hpage_pmd_size", "536870912\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "4\n");
	put(POOLS "hugepages-524288kB/free_hugepages", "0\n");
	put(POOLS "hugepages-16777216kB/free_hugepages", "0\n");
	offers_find(&offers, 64 * KIB);
	CHECK_EQUAL(offers.count, 4);
	CHECK_EQUAL(offers_huge_bytes(), 512 * MIB);
	CHECK_EQUAL(offer_of(&offers, 512 * MIB, ARENA_BASE)->method, ARENA_THP);
	CHECK_EQUAL(offer_of(&offers, 2 * MIB, ARENA_BASE)->available_bytes, 8 * MIB);
	CHECK_EQUAL(offer_of(&offers, 16 * GIB, ARENA_BASE)->available_bytes, 0);
	/* The base page itself is not a larger one. */
	CHECK(offers_pick(&offers, 64 * KIB, ARENA_BASE) == NULL);
	finish();
}

static void no_transparent_pages(void)
{
	struct offers offers;

	start();
	put("/proc/meminfo", "Hugepagesize:       2048 kB\n");
	put(POOLS "hugepages-2048kB/free_hugepages", "garbage\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers_huge_bytes(), 2 * MIB);
	CHECK_EQUAL(offers.count, 0);
	put(POOLS "hugepages-2048kB/free_hugepages", "5\n");
	put(POOLS "hugepages-2048kB/resv_hugepages", "7\n");
	offers_find(&offers, 4 * KIB);
	CHECK_EQUAL(offers.count, 1);
	CHECK_EQUAL(offers.list[0].available_bytes, 0);
	finish();
}

static const struct check_test tests[] = {
	{ "a kernel without larger pages offers none", nothing_at_all },
	{ "one file for transparent pages, and pools", old_kernel },
	{ "a filled pool takes the place of what is off", pool_in_place_of_transparent },
	{ "multi-size pages: each size's own file decides", sizes_with_settings_of_their_own },
	{ "64 KiB base pages", arm_with_64k_pages },
	{ "no transparent pages; garbage and promised pages are not free ones", no_transparent_pages },
};

CHECK_MAIN(tests)
