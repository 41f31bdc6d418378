/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many small mappings, some where the last one ended: zero at first, apart from each other, also
 * after some are gone and in a child.  Prints the kB of them on huge pages.  With an argument there
 * is hardly more address space than they need.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1024, BYTES = 64 << 10 };

static char *blocks[COUNT + 64];

static int map(int i, void *hint)
{
	char *block = mmap(hint, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return 0;
	for (int at = 0; at < BYTES; at++)
		if (block[at])
			return 0;
	blocks[i] = memset(block, i % 127 + 1, BYTES);
	return 1;
}

static int intact(void)
{
	for (int i = 0; i < COUNT + 64; i++)
		for (int at = 0; blocks[i] && at < BYTES; at++)
			if (blocks[i][at] != i % 127 + 1)
				return 0;
	return 1;
}

static long huge_kb(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kb = -1;

	while (rollup && fgets(line, sizeof(line), rollup))
		sscanf(line, "AnonHugePages: %ld", &kb);
	return kb;
}

int main(int argc, char **argv)
{
	int status = 1;
	long kb;

	(void)argv;
	if (argc > 1) {
		const struct rlimit most = { 76 << 20, 76 << 20 };

		if (setrlimit(RLIMIT_AS, &most) < 0)
			return 1;
	}
	for (int i = 0; i < COUNT; i++)
		if (!map(i, i % 2 ? blocks[i - 1] + BYTES : NULL))
			return 2;
	kb = huge_kb();
	for (int i = 0; i < COUNT; i += 3) {
		munmap(blocks[i], BYTES);
		blocks[i] = NULL;
	}
	if (fork() == 0) {
		for (int i = 0; i < 64; i++)
			if (!map(COUNT + i, NULL))
				return 3;
		return !intact();
	}
	for (int i = 0; i < 32; i++)
		if (!map(COUNT + i, NULL))
			return 4;
	if (wait(&status) < 0 || status || !intact())
		return 5;
	return printf("%ld\n", kb) < 0;
}
