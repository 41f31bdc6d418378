// SPDX-License-Identifier: GPL-2.0-or-later
// Memory of five sites: dense and sparse, often read and never, kept and freed at once, in large
// blocks and in small ones.  Reads it; prints which sites' memory asks for huge pages, and what of
// the heap has them.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline)) static

#define DENSE ((size_t)128 << 20)
#define SPARSE ((size_t)256 << 20)
#define COLD ((size_t)64 << 20)
#define CHURN ((size_t)3 << 20)
#define NODES 400000u

struct node {
	struct node *next;
	uint64_t value[6];
};

/* A wrapper, as many programs have: its callers are the sites. */
static void *xmalloc(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		abort();
	return block;
}

SITE uint64_t *dense_hot(void)
{
	return memset(xmalloc(DENSE), 1, DENSE);
}

SITE unsigned char *sparse_hot(void)
{
	unsigned char *block = xmalloc(SPARSE);

	for (size_t i = 0; i < SPARSE; i += 65536)
		block[i] = 1;
	return block;
}

SITE unsigned char *dense_cold(void)
{
	return memset(xmalloc(COLD), 2, COLD);
}

SITE void churned(void)
{
	for (int i = 0; i < 100; i++)
		free(memset(xmalloc(CHURN), i, CHURN));
}

SITE struct node *small_nodes(void)
{
	struct node *all = NULL;

	for (unsigned i = 0; i < NODES; i++) {
		struct node *node = xmalloc(sizeof(*node));

		node->next = all;
		node->value[0] = i;
		all = node;
	}
	return all;
}

/* Whether the mapping that holds an address has the flag hg (MADV_HUGEPAGE). */
static int asks(const void *address)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	uint64_t start, end;
	char line[4096];
	int inside = 0, found = 0;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = (uintptr_t)address >= start && (uintptr_t)address < end;
		if (inside && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, " hg") != NULL;
	}
	if (smaps)
		fclose(smaps);
	return found;
}

/* What of malloc's small blocks is on huge pages, in MiB. */
static long huge_heap(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	long kib, found = 0;
	char line[4096];
	int inside = 0;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (strchr(line, '-') && strchr(line, ':') > strchr(line, ' '))
			inside = strstr(line, "[heap]") != NULL;
		if (inside && sscanf(line, "AnonHugePages: %ld kB", &kib) == 1)
			found += kib;
	}
	if (smaps)
		fclose(smaps);
	return found >> 10;
}

int main(int argc, char **argv)
{
	const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	const uint64_t *dense = dense_hot();
	const unsigned char *sparse = sparse_hot(), *cold = dense_cold();
	const struct node *nodes = small_nodes();
	uint64_t x = 1, sum = 0;

	churned();
	for (uint64_t i = 0; i < rounds; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		sum += dense[(x >> 33) % (DENSE / sizeof(*dense))];
		if (i % 4 == 0)
			sum += sparse[(x >> 20) % (SPARSE >> 16) << 16];
	}
	for (const struct node *node = nodes; node; node = node->next)
		sum += node->value[0];
	fprintf(stderr, "%llu\n", (unsigned long long)sum);
	printf("dense %d sparse %d cold %d heap %ld\n", asks((const char *)dense + (16 << 20)),
	       asks(sparse + (16 << 20)), asks(cold + (16 << 20)), huge_heap());
	return 0;
}
