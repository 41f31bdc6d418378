/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory in a chosen state of fragmentation, for bench/stalls.py.
 *
 * fragment RESERVE fills memory with huge pages until RESERVE bytes are available.  Then each line
 * "WHOLE SPLIT LOCKED" of its input makes a state: it fills memory again, frees WHOLE huge pages in
 * one piece, and every other base page of SPLIT more.  LOCKED is 1 or 0: the base pages that stay
 * are locked, which compaction leaves alone where vm.compact_unevictable_allowed is 0.  It answers
 * with an empty line.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE (UINT64_C(2) << 20)
#define PAGE UINT64_C(4096)

static uint8_t *memory;
static uint64_t blocks;

static uint64_t available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

/* Of huge pages again, of which khugepaged makes none later. */
static void fill(void)
{
	munlock(memory, blocks * HUGE);
	madvise(memory, blocks * HUGE, MADV_DONTNEED);
	madvise(memory, blocks * HUGE, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < blocks * HUGE; at += PAGE)
		((volatile uint8_t *)memory)[at] = 1;
	madvise(memory, blocks * HUGE, MADV_NOHUGEPAGE);
}

/* Every other block, so that no two are free next to each other. */
static int make(uint64_t whole, uint64_t split, int locked)
{
	uint64_t next = 0;

	fill();
	for (uint64_t i = 0; i < whole + split; i++, next += 2) {
		uint8_t *at;

		if (next >= blocks)
			next = 1;
		at = memory + next * HUGE;
		if (i < whole) {
			madvise(at, HUGE, MADV_DONTNEED);
			continue;
		}
		/* A part of a huge page is not freed before that is split. */
		madvise(at, PAGE, MADV_COLD);
		for (uint64_t page = PAGE; page < HUGE; page += 2 * PAGE)
			madvise(at + page, PAGE, MADV_DONTNEED);
	}
	return locked ? mlock2(memory, blocks * HUGE, MLOCK_ONFAULT) : 0;
}

int main(int argc, char **argv)
{
	const uint64_t reserve = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	const uint64_t bytes = available() > reserve ? available() - reserve : 0;
	unsigned long whole, split;
	int locked;
	FILE *oom;

	/* If memory runs out, this process goes first. */
	oom = fopen("/proc/self/oom_score_adj", "w");
	if (oom) {
		fputs("1000", oom);
		fclose(oom);
	}
	blocks = bytes / HUGE;
	memory = mmap(NULL, (blocks + 1) * HUGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || !blocks) {
		perror("fragment");
		return 1;
	}
	memory = (uint8_t *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	while (scanf("%lu %lu %d", &whole, &split, &locked) == 3) {
		if (whole + split > blocks || make(whole, split, locked) < 0) {
			perror("fragment");
			return 1;
		}
		puts("");
		fflush(stdout);
	}
	return 0;
}
