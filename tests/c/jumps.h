/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chains of jumps in memory of a test's own, and whether this machine can run any. */
#ifndef TLBCOST_JUMPS_H
#define TLBCOST_JUMPS_H

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code.h"

static inline size_t base(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory for as many lines; no more of it is used than the pages that lines lie in. */
static inline struct code code_of(size_t lines, size_t stride)
{
	struct code code = { .stride = stride, .lines = lines };

	code.bytes = (lines * stride + base() - 1) / base() * base();
	code.memory = mmap(NULL, code.bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (code.memory == MAP_FAILED)
		abort();
	return code;
}

/* Can this machine run any chain at all? */
static inline int runs_here(void)
{
	struct code code = code_of(1, 64);
	uint32_t order[1];
	uint64_t seed = 1;
	int rc = code_link(&code, order, &seed);

	munmap(code.memory, code.bytes);
	return rc == 0 || (errno != ENOTSUP && errno != EACCES && errno != EPERM);
}

#define SKIP_UNLESS_JUMPS()                                                            \
	do {                                                                           \
		if (!runs_here())                                                      \
			CHECK_SKIP("no jumps for this CPU, or memory that was written" \
				   " cannot be executed here");                        \
	} while (0)

#endif
