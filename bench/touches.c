/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that time their own first touches, for bench/stalls.py.
 *
 * touches plain|arenas|forked BYTES base|huge.  "plain" touches memory in order.  "arenas" does as
 * Go's runtime: it reserves 64 MiB at a time, takes spans of 8 KiB in order, and gives half of each
 * arena back, to take it again later.  "forked" does as Redis while it saves: it writes to a
 * quarter of its memory while a child has the same.  Prints the time of the first touch of every
 * 2 MiB (forked: of each page's write), in ns, the time of all touches, and the bytes on huge pages.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE (UINT64_C(2) << 20)
#define ARENA (UINT64_C(64) << 20)
#define PAGE UINT64_C(4096)

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void touch(uint8_t *memory, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += HUGE) {
		const uint64_t before = now();

		((volatile uint8_t *)memory)[at] = 1;
		printf("%llu\n", (unsigned long long)(now() - before));
		for (uint64_t page = PAGE; page < HUGE && at + page < bytes; page += PAGE)
			((volatile uint8_t *)memory)[at + page] = 1;
	}
}

static uint8_t *reserve(uint64_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("touches");
		exit(1);
	}
	memory = (uint8_t *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void write_after_fork(uint8_t *memory, uint64_t bytes)
{
	const pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	for (uint64_t at = 0; child > 0 && at < bytes; at += PAGE) {
		const uint64_t before = now();

		((volatile uint8_t *)memory)[at] = 2;
		printf("%llu\n", (unsigned long long)(now() - before));
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static uint64_t huge_bytes(void)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

int main(int argc, char **argv)
{
	const uint64_t bytes = argc == 4 ? strtoull(argv[2], NULL, 10) / ARENA * ARENA : 0;
	static char buffer[1 << 20];
	uint64_t begin, huge = 0;

	if (!bytes) {
		fputs("touches plain|arenas|forked BYTES base|huge\n", stderr);
		return 2;
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	prctl(PR_SET_THP_DISABLE, strcmp(argv[3], "base") == 0, 0, 0, 0);
	begin = now();
	if (strcmp(argv[1], "plain") == 0) {
		touch(reserve(bytes), bytes);
	} else if (strcmp(argv[1], "forked") == 0) {
		uint8_t *memory = reserve(bytes);

		for (uint64_t at = 0; at < bytes; at += PAGE)
			((volatile uint8_t *)memory)[at] = 1;
		huge = huge_bytes();
		begin = now();
		write_after_fork(memory, bytes / 4);
	} else {
		/* Half of each arena is there twice. */
		for (uint64_t arena = 0; arena < bytes; arena += ARENA) {
			uint8_t *memory = reserve(ARENA);

			touch(memory, ARENA);
			madvise(memory + ARENA / 2, ARENA / 2, MADV_DONTNEED);
			touch(memory + ARENA / 2, ARENA / 2);
		}
	}
	printf("total %llu\nhuge %llu\n", (unsigned long long)(now() - begin),
	       (unsigned long long)(huge ? huge : huge_bytes()));
	return 0;
}
