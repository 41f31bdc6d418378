/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a program's memory keep what it holds, and how it is mapped? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

#define BYTES (8u << 20)

static unsigned long next(unsigned long value)
{
	return value * 6364136223846793005ul + 1442695040888963407ul;
}

/* Pages are written all the time, so that each copy costs copies of them. */
static const char *writes(void *state)
{
	static unsigned long seed = 1;
	unsigned long *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long value = seed, sum = 0, check = 0;
	size_t count = BYTES / sizeof(*words);

	(void)state;
	if (words == MAP_FAILED)
		return torture_result(-1, 0, 0);
	for (size_t i = 0; i < count; i++) {
		value = next(value);
		words[value % count] += value;
		sum += value;
	}
	for (size_t i = 0; i < count; i++)
		check += words[i];
	seed = value;
	munmap(words, BYTES);
	return sum == check ? NULL : torture_wrong("%lx, should be %lx", check, sum);
}

/* The flags of the mapping that has this address, of /proc/self/smaps. */
static void flags_of(const void *address, char flags[256])
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, past, at = (unsigned long)address;
	char line[1024];
	int inside = 0;

	flags[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &past) == 2)
			inside = at >= start && at < past;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			snprintf(flags, 256, "%.200s", line);
	}
	if (file)
		fclose(file);
}

/* Memory that no child is to get, or an empty one: it is so all the time, and its content stays. */
static const char *advises(void *state)
{
	static const int advice[] = { MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP,
		MADV_NOHUGEPAGE };
	char before[256], after[256];
	const char *wrong = NULL;

	(void)state;
	for (size_t i = 0; !wrong && i < sizeof(advice) / sizeof(*advice); i++) {
		volatile unsigned *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void *address = (void *)(unsigned long)memory;

		if (madvise(address, 65536, advice[i]))
			return torture_result(-1, 0, 0);
		memory[0] = 42;
		flags_of(address, before);
		for (int round = 0; round < 20; round++) {
			torture_spin(500000);
			memory[0]++;
		}
		flags_of(address, after);
		if (memory[0] != 62)
			wrong = torture_wrong("advice %d: %u", advice[i], memory[0]);
		else if (strcmp(before, after))
			wrong = torture_wrong("advice %d: %s, was %s", advice[i], after, before);
		munmap(address, 65536);
	}
	return wrong;
}

/* A child of its own gets what the advice says, whatever was copied in between. */
static const char *forks(void *state)
{
	unsigned char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
	unsigned char *wiped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);
	unsigned char resident;
	int status = 0;
	pid_t child;

	(void)state;
	madvise(gone, 4096, MADV_DONTFORK);
	madvise(wiped, 4096, MADV_WIPEONFORK);
	*gone = *wiped = 1;
	torture_spin(2000000);
	child = fork();
	if (!child)
		_exit(!!*wiped + 2 * !mincore(gone, 4096, &resident));
	waitpid(child, &status, 0);
	if (!*gone || !*wiped)
		return "its own memory is gone";
	munmap(gone, 4096);
	munmap(wiped, 4096);
	return torture_result(status, 0, 0);
}

/* Locked, protected, remapped, grown and shrunk. */
static const char *maps(void *state)
{
	unsigned char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		size_t bytes = (1u << 20) << (i & 1), grown = (1u << 20) << (~i & 1);

		memset(memory, (int)i, 1 << 20);
		if (mlock(memory, 65536) || munlock(memory, 65536) || mprotect(memory, 65536,
									       PROT_READ) ||
		    mprotect(memory, 65536, PROT_READ | PROT_WRITE))
			return torture_result(-1, 0, 0);
		memory = mremap(memory, bytes, grown, MREMAP_MAYMOVE);
		if (memory == MAP_FAILED)
			return torture_result(-1, 0, 0);
		for (size_t at = 0; at < 1 << 20; at += 4096)
			if (memory[at] != i)
				return torture_wrong("round %u: %u", i, memory[at]);
	}
	munmap(memory, 1 << 20);
	return NULL;
}

static const struct torture_case cases[] = {
	{ .name = "written memory", .once = writes },
	{ .name = "mappings that change", .once = maps },
};

/*
 * Alone, since the memory of others could come to lie where this one's was, in the moment for which
 * its advice is lifted.
 */
static int run_alone(void)
{
	const char *wrong = NULL, *of_children = NULL;
	int failed;

	do {
		wrong = wrong ? wrong : advises(NULL);
		of_children = of_children ? of_children : forks(NULL);
	} while (torture_more());
	failed = torture_line("advice", wrong);
	return failed + torture_line("advice, for children", of_children);
}

/* With an argument: what one thread does alone. */
int main(int argc, char **argv)
{
	struct account *account = account_begin(false);
	int failed;

	(void)argv;
	failed = argc > 1 ? run_alone() : torture_run(cases, sizeof(cases) / sizeof(*cases));
	return failed + account_end(account) ? 1 : 0;
}
