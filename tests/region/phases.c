/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of phases, each of whose misses are known: "phases PASSES TIMES [fork]" fills 8192
 * pages, and TIMES times reads one line of each, page by page, PASSES times.  They are more than
 * a TLB has entries: each of these reads walks on base pages.  With ONLY, it does not fill them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tlbcost-marker.h>

#define PAGE 4096ul
#define PAGES 8192ul
#define HUGE (2ul << 20)

__attribute__((noinline)) static void fill(unsigned char *memory)
{
	for (unsigned long i = 0; i < PAGES * PAGE; i += 64)
		memory[i] = (unsigned char)i;
}

__attribute__((noinline)) static unsigned long reads(const volatile unsigned char *memory, long passes)
{
	unsigned long sum = 0;

	for (long pass = 0; pass < passes; pass++)
		for (unsigned long i = 0; i < PAGES; i++)
			sum += memory[i * PAGE];
	return sum;
}

__attribute__((noinline)) static void done(void)
{
	__asm__ volatile("");
}

__attribute__((noinline)) void never(void)
{
	__asm__ volatile("");
}

/* Known to the debug information alone. */
static inline __attribute__((always_inline)) unsigned long folded(unsigned long sum)
{
	return sum * 3;
}

/* A child comes to the same places. */
static int in_child(unsigned char *memory)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		reads(memory, 1);
		done();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	unsigned char *memory = aligned_alloc(HUGE, PAGES * PAGE);
	unsigned long sum = 0;

	if (argc < 3 || !memory)
		return 2;
#ifndef ONLY
	fill(memory);
#endif
	for (long i = 0; i < atol(argv[2]); i++) {
		TLBCOST_MARK("reading");
		sum += reads(memory, atol(argv[1]));
		TLBCOST_MARK("read");
		done();
		if (argc > 3 && in_child(memory))
			return 3;
	}
	printf("%lu\n", folded(sum));
	return argc > 4 ? atoi(argv[4]) : 0;
}
