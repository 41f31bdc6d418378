/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static bool is_free(const struct call_limits *limits, uint64_t start, uint64_t bytes)
{
	return !(start < limits->area + limits->area_bytes && limits->area < start + bytes) &&
	       !shared_memory_overlaps(limits->shared, start, bytes);
}

bool calls_change_is_private(const struct user_regs_struct *r, const struct call_limits *limits)
{
	switch (r->rax) {
	case SYS_mmap:
		return (r->r10 & MAP_TYPE) == MAP_PRIVATE && r->r10 & MAP_ANONYMOUS &&
		       !(r->r10 & (MAP_HUGETLB | MAP_LOCKED)) &&
		       (!(r->r10 & MAP_FIXED) || is_free(limits, r->rdi, r->rsi));
	case SYS_madvise:
		return calls_advice_is_private(r->rdx) && is_free(limits, r->rdi, r->rsi);
	case SYS_munmap:
	case SYS_mprotect:
		return is_free(limits, r->rdi, r->rsi);
	case SYS_mremap:
		return is_free(limits, r->rdi, r->rsi) &&
		       (!(r->r10 & MREMAP_FIXED) || is_free(limits, r->r8, r->rdx));
	default:
		return false;
	}
}

/* No thread sleeps there for a copy to wake, and nothing would wake a sleeping copy. */
static enum call_verdict decide_futex(struct copy *copy, struct user_regs_struct *r,
				      const struct call_limits *limits)
{
	uint32_t now;

	switch ((int)r->rsi & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		r->rax = 0;
		return CALL_ANSWERED;
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (shared_memory_fill(limits->shared, copy, r, r->rdi, sizeof(now)) < 0 ||
		    copy_read(copy, r->rdi, &now, sizeof(now)) < 0 || now == (uint32_t)r->rdx)
			return CALL_ENDS;
		r->rax = (unsigned long long)-EAGAIN;
		return CALL_ANSWERED;
	default:
		return CALL_ENDS;
	}
}

enum call_verdict calls_decide(struct copy *copy, struct user_regs_struct *r,
			       const struct call_limits *limits)
{
	switch (r->rax) {
	case SYS_mremap:
		/* With a new address that is given it could land anywhere. */
		if (r->r10 & MREMAP_FIXED)
			return CALL_ENDS;
		/* fall through */
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_madvise:
		return calls_change_is_private(r, limits) ? CALL_REAL : CALL_ENDS;
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
		return decide_futex(copy, r, limits);
	default:
		return CALL_ENDS;
	}
}
