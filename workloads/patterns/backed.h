/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How does a program get memory on pages of one size, and how does it prove that it is on
 * them?  From a boundary of 1 GiB, so that page numbers of all sizes are the same in each run,
 * and only where it is touched.
 */
#ifndef TLBCOST_BACKED_H
#define TLBCOST_BACKED_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

#define BACKED_BOUNDARY (UINT64_C(1) << 30)
#define BACKED_CANNOT 4		/* exit code: no such pages here */
/* Of transparent pages a few may be missing; of a pool's none is. */
#define BACKED_LEAST_PERCENT 99u
#define BACKED_AT_ONCE 4096u	/* entries of pagemap in one read */

/*
 * `page_bytes` 0: on whatever pages the system gives; `transparent`: by
 * madvise() where it is larger than a base page, else from the pool.
 */
struct backed {
	char *start;
	uint64_t bytes, page_bytes;
	int transparent;
};

/* Resident bytes of it, and how many of these are on pages of the requested size. */
struct backed_proof {
	uint64_t resident_bytes, proven_bytes;
};

static inline uint64_t backed_base_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline void backed_no_more(int number)
{
	static const char words[] = "the pool has no more huge pages of this size\n";

	(void)number;
	if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(1);
	_exit(BACKED_CANNOT);
}

static inline void backed_fail(const struct backed *memory, const char *what)
{
	fprintf(stderr, "cannot %s %llu bytes on pages of %llu: %s\n", what,
		(unsigned long long)memory->bytes,
		(unsigned long long)memory->page_bytes, strerror(errno));
	exit(errno == EINVAL || memory->page_bytes ? BACKED_CANNOT : 1);
}

/* Map it; exits 4 if there are no such pages, 1 if there is no memory. */
static inline void backed_map(struct backed *memory)
{
	const uint64_t room = memory->bytes + BACKED_BOUNDARY;
	const int pool = !memory->transparent &&
			 memory->page_bytes > backed_base_bytes();
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *start = mmap(NULL, room, PROT_NONE, flags, -1, 0);
	uint64_t past;

	if (start == MAP_FAILED)
		backed_fail(memory, "map");
	past = (uint64_t)(uintptr_t)start % BACKED_BOUNDARY;
	memory->start = start + (past ? BACKED_BOUNDARY - past : 0);
	if (pool)
		flags |= MAP_HUGETLB |
			 (int)((unsigned)__builtin_ctzll(memory->page_bytes) << MAP_HUGE_SHIFT);
	if (mmap(memory->start, memory->bytes, PROT_READ | PROT_WRITE,
		 flags | MAP_FIXED, -1, 0) == MAP_FAILED)
		backed_fail(memory, "map");
	if (pool) {
		/* The kernel's answer to a touch of a page that the pool lacks. */
		signal(SIGBUS, backed_no_more);
		return;
	}
	/* A kernel without transparent huge pages gives base pages alone. */
	if (memory->page_bytes &&
	    madvise(memory->start, memory->bytes,
		    memory->transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) < 0 &&
	    memory->transparent)
		backed_fail(memory, "ask for");
}

/* A number in kB that follows `name` in a line of smaps. */
static inline int backed_field(const char *line, const char *name, uint64_t *bytes)
{
	const size_t length = strlen(name);

	if (strncmp(line, name, length) != 0)
		return 0;
	*bytes = strtoull(line + length, NULL, 10) << 10;
	return 1;
}

/* Its figures in smaps; -1 if it cannot be read. */
static inline int backed_smaps(const struct backed *memory, struct backed_proof *proof)
{
	const uint64_t start = (uint64_t)(uintptr_t)memory->start;
	FILE *file = fopen("/proc/self/smaps", "r");
	uint64_t n, kernel_bytes = 0;
	unsigned long long from, to;
	int ours = 0;
	char line[512];

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2) {
			ours = from >= start && to <= start + memory->bytes;
			continue;
		}
		if (!ours)
			continue;
		if (backed_field(line, "KernelPageSize:", &n)) {
			kernel_bytes = n;
		} else if (backed_field(line, "Rss:", &n)) {
			proof->resident_bytes += n;
			if (memory->page_bytes == backed_base_bytes() &&
			    kernel_bytes == memory->page_bytes)
				proof->proven_bytes += n;
		} else if (backed_field(line, "AnonHugePages:", &n)) {
			if (memory->transparent)
				proof->proven_bytes += n;
			else if (memory->page_bytes == backed_base_bytes())
				proof->proven_bytes -= n;
		/* Pages that are ours alone: which of both is the kernel's guess. */
		} else if (backed_field(line, "Private_Hugetlb:", &n) ||
			   backed_field(line, "Shared_Hugetlb:", &n)) {
			proof->resident_bytes += n;
			if (kernel_bytes == memory->page_bytes)
				proof->proven_bytes += n;
		}
	}
	fclose(file);
	return 0;
}

/* Frames of one block, in a row and from a boundary of its size? */
static inline int backed_in_a_row(const uint64_t *entries, uint64_t n)
{
	const uint64_t present = UINT64_C(1) << 63, frame = (UINT64_C(1) << 55) - 1;
	const uint64_t first = entries[0] & frame;

	/* Users other than root see frame 0 for all. */
	if (!first || first % n)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		if (!(entries[i] & present) || (entries[i] & frame) != first + i)
			return 0;
	return 1;
}

/*
 * Transparent pages that are smaller than those of smaps' AnonHugePages: memory in contiguous
 * frames, as /proc/self/pagemap shows to root.  -1: unreadable.
 */
static inline int backed_frames(const struct backed *memory, struct backed_proof *proof)
{
	const uint64_t base = backed_base_bytes(), n = memory->page_bytes / base;
	const uint64_t first = (uint64_t)(uintptr_t)memory->start / base;
	static uint64_t entries[BACKED_AT_ONCE];
	const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return -1;
	proof->proven_bytes = 0;
	for (uint64_t at = 0; at < memory->bytes / base; at += BACKED_AT_ONCE) {
		const ssize_t got = pread(file, entries, sizeof(entries),
					  (off_t)((first + at) * sizeof(*entries)));

		for (uint64_t i = 0; (i + n) * sizeof(*entries) <= (uint64_t)(got < 0 ? 0 : got); i += n)
			if (backed_in_a_row(entries + i, n))
				proof->proven_bytes += memory->page_bytes;
	}
	close(file);
	return 0;
}

/* What of it is proven; exits 4 if that is less than nearly all. */
static inline struct backed_proof backed_prove(const struct backed *memory)
{
	struct backed_proof proof = { 0, 0 };

	if (backed_smaps(memory, &proof) < 0 ||
	    (memory->transparent && memory->page_bytes < WORKLOAD_HUGE_BYTES &&
	     backed_frames(memory, &proof) < 0)) {
		perror("cannot tell which pages the memory is on");
		exit(BACKED_CANNOT);
	}
	if (memory->page_bytes &&
	    (!proof.resident_bytes ||
	     proof.proven_bytes * 100 < proof.resident_bytes * BACKED_LEAST_PERCENT)) {
		fprintf(stderr, "%llu of %llu bytes are on pages of %llu\n",
			(unsigned long long)proof.proven_bytes,
			(unsigned long long)proof.resident_bytes,
			(unsigned long long)memory->page_bytes);
		exit(BACKED_CANNOT);
	}
	return proof;
}

#endif
