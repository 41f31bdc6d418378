/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do all workloads share?  Options with defaults, a generator of random
 * numbers that is the same everywhere, and one line of output that depends on
 * every access, so that no compiler can drop one.
 */
#ifndef TLBCOST_WORKLOAD_H
#define TLBCOST_WORKLOAD_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKLOAD_LINE_BYTES 64u
#define WORKLOAD_PAGE_BYTES 4096u
#define WORKLOAD_HUGE_BYTES (2u << 20)

/* "--name VALUE": a count or a size, with k, M or G for powers of 1024. */
struct workload_option {
	const char *name;
	uint64_t *value;	/* holds the default */
	uint64_t least;		/* smaller values are refused */
	const char *meaning;
};

/* Returns 0, or -1 if the text is not a number that fits. */
static inline int workload_number(const char *text, uint64_t *value)
{
	static const char suffixes[] = "kmg";
	unsigned long long n;
	unsigned shift = 0;
	char *end;

	/* strtoull() would read "-1" as a very large number. */
	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -1;
	if (*end) {
		const char *suffix = strchr(suffixes, *end | 0x20);

		if (!suffix || end[1])
			return -1;
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -1;
	*value = (uint64_t)n << shift;
	return 0;
}

static inline void workload_help(const char *program, const char *what,
				 const struct workload_option *options,
				 size_t count)
{
	printf("usage: %s [--OPTION VALUE]...\n%s\n\n", program, what);
	for (size_t i = 0; i < count; i++)
		printf("  --%-8s %s (%llu)\n", options[i].name,
		       options[i].meaning,
		       (unsigned long long)*options[i].value);
}

static inline const struct workload_option *
workload_find(const char *name, const struct workload_option *options,
	      size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, options[i].name) == 0)
			return &options[i];
	return NULL;
}

/* Read the command line; exits 0 after --help and 2 on a mistake. */
static inline void workload_parse(char **argv, const char *what,
				  const struct workload_option *options,
				  size_t count)
{
	const char *program = argv[0];

	while (*++argv) {
		const struct workload_option *option = NULL;

		if (strcmp(*argv, "--help") == 0) {
			workload_help(program, what, options, count);
			exit(0);
		}
		if (strncmp(*argv, "--", 2) == 0)
			option = workload_find(*argv + 2, options, count);
		if (!option) {
			fprintf(stderr, "%s: unknown option: %s\n", program, *argv);
			exit(2);
		}
		argv++;
		if (!*argv || workload_number(*argv, option->value) < 0 ||
		    *option->value < option->least) {
			fprintf(stderr, "%s: --%s needs a number of at least %llu\n",
				program, option->name,
				(unsigned long long)option->least);
			exit(2);
		}
	}
}

#define WORKLOAD_PARSE(argv, what, options) \
	workload_parse(argv, what, options, sizeof(options) / sizeof((options)[0]))

/*
 * Memory from malloc(), so that GLIBC_TUNABLES=glibc.malloc.hugetlb reaches
 * it; not touched yet.  Exits 1 if there is none.
 */
static inline void *workload_memory(uint64_t bytes)
{
	void *memory = bytes > SIZE_MAX ? NULL : malloc((size_t)bytes);

	if (!memory) {
		fprintf(stderr, "cannot allocate %llu bytes: %s\n",
			(unsigned long long)bytes, strerror(ENOMEM));
		exit(1);
	}
	return memory;
}

/* The same from a 2 MiB boundary, so that pages of both sizes can be counted. */
static inline void *workload_aligned_memory(uint64_t bytes)
{
	uint64_t start = (uint64_t)(uintptr_t)workload_memory(bytes +
							      WORKLOAD_HUGE_BYTES);

	start = (start + WORKLOAD_HUGE_BYTES - 1) &
		~(uint64_t)(WORKLOAD_HUGE_BYTES - 1);
	return (void *)(uintptr_t)start;
}

/* Marsaglia's xorshift64: never 0 as long as the state is not. */
static inline uint64_t workload_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* A start for workload_random(); one seed's sequence says nothing about the next. */
static inline uint64_t workload_seed(uint64_t seed)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u;

	return x ? x : 1;
}

/* A number below n <= 2^32; a product is ten times quicker than a division. */
static inline uint64_t workload_below(uint64_t random, uint64_t n)
{
	return ((random >> 32) * n) >> 32;
}

/* Refuse tables whose elements workload_below() could not reach. */
static inline void workload_at_most_32_bits(uint64_t elements)
{
	if (elements > UINT64_C(1) << 32) {
		fputs("--size is too large for 32-bit indices\n", stderr);
		exit(2);
	}
}

/* Print the one line of output; the exit code of main(). */
static inline int workload_finish(uint64_t checksum)
{
	printf("checksum %016llx\n", (unsigned long long)checksum);
	return fflush(stdout) == 0 ? 0 : 1;
}

#endif
