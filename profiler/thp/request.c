/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "request.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "vma.h"

/* Since Linux 6.1; headers of the C library may be older. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static int advise(struct injection *injection, uint64_t start, uint64_t end, uint64_t advice,
		  int64_t *result)
{
	const uint64_t arguments[3] = { start, end - start, advice };

	return injection_call(injection, SYS_madvise, arguments, result);
}

int request_huge(struct injection *injection, uint64_t start, uint64_t end)
{
	int64_t result;

	return advise(injection, start, end, MADV_HUGEPAGE, &result);
}

int request_collapse(struct injection *injection, uint64_t start, uint64_t end)
{
	int64_t result;

	if (advise(injection, start, end, MADV_COLLAPSE, &result) < 0)
		return -1;
	return result == -EINVAL;
}

/* Returns 1, or -1. */
static int replace(struct injection *injection, uint64_t start, uint64_t end)
{
	if (request_huge(injection, start, end) < 0)
		return -1;
	return request_collapse(injection, start, end) < 0 ? -1 : 1;
}

int request_completed(struct injection *injection, uint64_t start, uint64_t end,
		      uint64_t huge_page_bytes)
{
	uint64_t size = huge_page_bytes;
	uint64_t first = start / size * size, last = end / size * size;
	int rc = 0, more = 0;
	struct vma vma;

	if (first == start && last == end)
		return 0;
	if (!vma_find(injection->tid, start, &vma) || !vma.anonymous)
		return 0;
	if (first != start && vma.start <= first && vma.end >= first + size)
		rc = replace(injection, first, first + size);
	if (rc >= 0 && last != end && (last != first || first == start) && vma.start <= last &&
	    vma.end >= last + size)
		more = replace(injection, last, last + size);
	return rc < 0 || more < 0 ? -1 : rc + more;
}
