/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static bool overlaps(uint64_t start, uint64_t bytes, uint64_t area, uint64_t area_bytes)
{
	return start < area + area_bytes && area < start + bytes;
}

static enum call_verdict decide_map(const struct user_regs_struct *r, uint64_t area,
				    uint64_t area_bytes)
{
	const uint64_t flags = r->r10;

	if (!(flags & MAP_ANONYMOUS) || !(flags & MAP_PRIVATE) || flags & (MAP_HUGETLB | MAP_LOCKED))
		return CALL_ENDS;
	if (flags & MAP_FIXED && overlaps(r->rdi, r->rsi, area, area_bytes))
		return CALL_ENDS;
	return CALL_REAL;
}

/* No thread sleeps there for a copy to wake, and nothing would wake a sleeping copy. */
static enum call_verdict decide_futex(const struct copy *copy, struct user_regs_struct *r)
{
	uint32_t now;

	switch ((int)r->rsi & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		r->rax = 0;
		return CALL_ANSWERED;
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (copy_read(copy, r->rdi, &now, sizeof(now)) < 0 || now == (uint32_t)r->rdx)
			return CALL_ENDS;
		r->rax = (unsigned long long)-EAGAIN;
		return CALL_ANSWERED;
	default:
		return CALL_ENDS;
	}
}

enum call_verdict calls_decide(const struct copy *copy, struct user_regs_struct *r, uint64_t area,
			       uint64_t area_bytes)
{
	switch (r->rax) {
	case SYS_mmap:
		return decide_map(r, area, area_bytes);
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_madvise:
		return overlaps(r->rdi, r->rsi, area, area_bytes) ? CALL_ENDS : CALL_REAL;
	case SYS_mremap:
		/* With a new address that is given it could land anywhere. */
		return overlaps(r->rdi, r->rsi, area, area_bytes) || r->r10 & MREMAP_FIXED ? CALL_ENDS :
											 CALL_REAL;
	case SYS_brk:
	case SYS_mincore:
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_gettimeofday:
	case SYS_time:
	case SYS_uname:
	case SYS_getrandom:
	case SYS_getcpu:
	case SYS_sysinfo:
	case SYS_sched_getaffinity:
	case SYS_getuid:
	case SYS_geteuid:
	case SYS_getgid:
	case SYS_getegid:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigaction:
	case SYS_sigaltstack:
	case SYS_getrlimit:
		return CALL_REAL;
	case SYS_getpid:
		r->rax = (unsigned long long)copy->program;
		return CALL_ANSWERED;
	case SYS_gettid:
		r->rax = (unsigned long long)copy->thread;
		return CALL_ANSWERED;
	case SYS_sched_yield:
	case SYS_membarrier:
		r->rax = 0;
		return CALL_ANSWERED;
	case SYS_futex:
		return decide_futex(copy, r);
	default:
		return CALL_ENDS;
	}
}
