/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arena.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Pages are touched and proven in this many parts, so that the end of a pool is found early. */
#define PARTS 16

static int log2_of(size_t power)
{
	int n = 0;

	while (power >>= 1)
		n++;
	return n;
}

/*
 * Make the inside mappings of two pages each, from an odd page to the next even
 * one, so that no aligned page of twice the size or more fits into any of them:
 * the kernel takes the largest size that is allowed and fits.  Neighbours with
 * the same flags would be merged; whether memory is dumped makes no difference.
 */
static int keep_larger_pages_out(const struct arena *arena)
{
	const size_t pair = 2 * arena->page_bytes;
	const size_t bytes = arena->reserved_pages * arena->page_bytes;
	size_t at = (uintptr_t)arena->memory % pair ? 0 : arena->page_bytes;

	for (; at < bytes; at += 2 * pair)
		if (madvise(arena->memory + at, bytes - at < pair ? bytes - at : pair,
			    MADV_DONTDUMP) != 0)
			return -1;
	return 0;
}

/* Replace the guarded reservation's inside by memory of the page size. */
static int map_inside(const struct arena *arena)
{
	/* No reserve: far more is mapped than touched if pages are far apart. */
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	int advice = arena->method == ARENA_BASE ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
	size_t bytes = arena->reserved_pages * arena->page_bytes;

	if (arena->method == ARENA_HUGETLB)
		flags |= MAP_HUGETLB | log2_of(arena->page_bytes) << MAP_HUGE_SHIFT;
	else
		flags |= MAP_NORESERVE;
	if (mmap(arena->memory, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return -1;
	if (arena->method == ARENA_HUGETLB)
		return 0;
	if (madvise(arena->memory, bytes, advice) == 0)
		return arena->method == ARENA_MTHP ? keep_larger_pages_out(arena) : 0;
	/* A kernel without transparent huge pages has no such advice, and needs none. */
	return arena->method == ARENA_BASE && errno == EINVAL ? 0 : -1;
}

int arena_open(struct arena *arena, enum arena_method method, size_t page_bytes,
	       size_t pages)
{
	size_t base = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t start;
	int error;

	memset(arena, 0, sizeof(*arena));
	if (pages == 0 || page_bytes < base || (page_bytes & (page_bytes - 1)) ||
	    (method == ARENA_BASE) != (page_bytes == base)) {
		errno = EINVAL;
		return -1;
	}
	if (pages > SIZE_MAX / 2 / page_bytes) {
		errno = ENOMEM;
		return -1;
	}
	arena->method = method;
	arena->page_bytes = page_bytes;
	arena->reserved_pages = pages;
	/*
	 * Guard pages on both sides: the kernel merges neighbours with the same
	 * flags into one entry of smaps, which would blur the proof.
	 */
	arena->mapping_bytes = (pages + 2) * page_bytes;
	arena->mapping = mmap(NULL, arena->mapping_bytes, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena->mapping == MAP_FAILED) {
		memset(arena, 0, sizeof(*arena));
		return -1;
	}
	start = (uintptr_t)arena->mapping + base + page_bytes - 1;
	arena->memory = arena->mapping +
			((start & ~(uintptr_t)(page_bytes - 1)) - (uintptr_t)arena->mapping);
	if (map_inside(arena) != 0) {
		error = errno;
		arena_close(arena);
		errno = error;
		return -1;
	}
	return 0;
}

static void add_field(struct arena_proof *proof, const char *line)
{
	unsigned long long kib;
	uint64_t bytes;
	char name[32];

	if (sscanf(line, "%31[A-Za-z_]: %llu kB", name, &kib) != 2)
		return;
	bytes = (uint64_t)kib << 10;
	if (strcmp(name, "Rss") == 0)
		proof->resident += bytes;
	else if (strcmp(name, "AnonHugePages") == 0)
		proof->transparent_huge += bytes;
	/* Linux 6.18 counts private 1 GiB pages as shared ones now and then. */
	else if (strcmp(name, "Private_Hugetlb") == 0 || strcmp(name, "Shared_Hugetlb") == 0)
		proof->hugetlb += bytes;
	else if (strcmp(name, "Swap") == 0)
		proof->swapped += bytes;
	else if (strcmp(name, "KernelPageSize") == 0 && bytes > proof->kernel_page)
		proof->kernel_page = bytes;
}

int arena_prove(const struct arena *arena, struct arena_proof *proof)
{
	uintptr_t from = (uintptr_t)arena->memory;
	uintptr_t to = from + arena->reserved_pages * arena->page_bytes;
	/*
	 * Always the real one: a test's fake machine proves nothing about our memory.
	 * User-mode emulators fake /proc/self/smaps (QEMU 10: nothing is resident), but not
	 * the thread's.
	 */
	FILE *file = fopen("/proc/thread-self/smaps", "re");
	unsigned long start, end;
	int inside = 0, seen = 0;
	char line[512];

	memset(proof, 0, sizeof(*proof));
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*4s ", &start, &end) == 2) {
			inside = start < to && end > from;
			seen |= inside;
		} else if (inside) {
			add_field(proof, line);
		}
	}
	fclose(file);
	if (!seen) {
		errno = ENODATA;
		return -1;
	}
	return 0;
}

/*
 * Is every base page of the first `pages` pages resident?  Returns 1 or 0; -1 with errno set.
 */
static int all_resident(const struct arena *arena, size_t pages)
{
	const size_t base = (size_t)sysconf(_SC_PAGESIZE), bytes = pages * arena->page_bytes;
	unsigned char there[4096];
	size_t part;

	for (size_t at = 0; at < bytes; at += part) {
		part = bytes - at < sizeof(there) * base ? bytes - at : sizeof(there) * base;
		if (mincore(arena->memory + at, part, there) != 0)
			return -1;
		for (size_t i = 0; i < part / base; i++)
			if (!(there[i] & 1))
				return 0;
	}
	return 1;
}

/* Have the first `pages` pages the size asked for?  Returns 1 or 0; -1 with errno set. */
static int proves(const struct arena *arena, size_t pages)
{
	uint64_t bytes = (uint64_t)pages * arena->page_bytes;
	struct arena_proof proof;

	if (arena->method != ARENA_MTHP && arena_prove(arena, &proof) != 0)
		return -1;
	switch (arena->method) {
	case ARENA_THP:
		return proof.transparent_huge >= bytes &&
		       proof.resident == proof.transparent_huge && !proof.swapped;
	case ARENA_MTHP:
		return all_resident(arena, pages);
	case ARENA_HUGETLB:
		return proof.hugetlb >= bytes && proof.kernel_page == arena->page_bytes;
	case ARENA_BASE:
		/* Pages in between that were never touched are not resident. */
		return proof.transparent_huge == 0 && proof.resident >= bytes &&
		       proof.kernel_page == arena->page_bytes && !proof.swapped;
	}
	return 0;
}

int arena_holds(const struct arena *arena)
{
	return proves(arena, arena->pages);
}

/*
 * Even pages first: neighbours touched one after the other often get adjacent frames, and some
 * TLBs (AMD's) hold such pages in one entry.
 */
static void touch(const struct arena *arena, size_t from, size_t to)
{
	for (size_t odd = 0; odd < 2; odd++)
		for (size_t page = from + odd; page < to; page += 2)
			*(volatile char *)(arena->memory + page * arena->page_bytes) = 1;
}

int arena_extend(struct arena *arena, size_t pages, uint64_t deadline_ns)
{
	size_t part = (pages + PARTS - 1) / PARTS;
	size_t at, target, proven = arena->pages;
	int rc, late = clock_ns() >= deadline_ns;

	if (pages > arena->reserved_pages) {
		errno = EINVAL;
		return -1;
	}
	for (at = proven; at < pages && !late; at = arena->pages) {
		target = at + part < pages ? at + part : pages;
		/* Touching a hugetlb page that the pool lacks would be a SIGBUS. */
		if (arena->method == ARENA_HUGETLB &&
		    madvise(arena->memory + at * arena->page_bytes,
			    (target - at) * arena->page_bytes, MADV_POPULATE_WRITE) != 0 &&
		    errno != EINVAL)
			return -1;
		touch(arena, at, target);
		late = clock_ns() >= deadline_ns;
		/* Base pages do not run out, and reading smaps costs half as much as touching. */
		if (arena->method == ARENA_BASE && target < pages && !late) {
			arena->pages = target;
			continue;
		}
		rc = proves(arena, target);
		if (rc != 1)
			arena->pages = proven;
		if (rc < 0)
			return -1;
		if (rc == 0) {
			madvise(arena->memory + arena->pages * arena->page_bytes,
				(arena->reserved_pages - arena->pages) * arena->page_bytes,
				MADV_DONTNEED);
			errno = ENODATA;
			return -1;
		}
		arena->pages = proven = target;
	}
	return 0;
}

void arena_close(struct arena *arena)
{
	if (arena->mapping)
		munmap(arena->mapping, arena->mapping_bytes);
	memset(arena, 0, sizeof(*arena));
}
