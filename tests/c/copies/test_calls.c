/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What may a copy do at a system call? */
#include "check.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "calls.h"
#include "traced.h"

#define AREA UINT64_C(0x700000000000)
#define AREA_SIZE UINT64_C(0x10000)
#define MEMORY (WORLD_LOW + ARENA)

/* One mapping that was shared. */
#define SHARED UINT64_C(0x600000000000)
static struct shared_range range = { .start = SHARED, .end = SHARED + 0x10000 };
static struct shared_memory shared = { &range, 1 };
static const struct call_limits limits = { AREA, AREA_SIZE, &shared };

static enum call_verdict decide(struct copy *copy, long call, uint64_t first, uint64_t second,
				uint64_t third, uint64_t fourth, long long *result)
{
	struct user_regs_struct registers = { .rax = (unsigned long)call, .rdi = first,
					      .rsi = second, .rdx = third, .r10 = fourth };
	const enum call_verdict verdict = calls_decide(copy, &registers, &limits);

	*result = (long long)registers.rax;
	return verdict;
}

#define DECIDE(...) decide(&copy, __VA_ARGS__, &result)

TEST(calls_that_change_mappings)
{
	struct copy copy = { .pid = 0 };
	const uint64_t anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
	long long result;

	CHECK_EQUAL(DECIDE(SYS_mmap, 0, 4096, PROT_READ, anonymous), CALL_REAL);
	CHECK_EQUAL(DECIDE(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mmap, AREA - 4096, 8192, PROT_READ, anonymous | MAP_FIXED), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mmap, AREA - 4096, 4096, PROT_READ, anonymous | MAP_FIXED), CALL_REAL);
	CHECK_EQUAL(DECIDE(SYS_munmap, AREA + AREA_SIZE, 4096, 0, 0), CALL_REAL);
	CHECK_EQUAL(DECIDE(SYS_munmap, AREA + AREA_SIZE - 1, 4096, 0, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mremap, 4096, 4096, 8192, MREMAP_MAYMOVE), CALL_REAL);
	CHECK_EQUAL(DECIDE(SYS_mremap, 4096, 4096, 8192, MREMAP_MAYMOVE | MREMAP_FIXED), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mmap, 0, 4096, PROT_READ, anonymous | MAP_SHARED), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_mmap, 0, 4096, PROT_READ, anonymous | MAP_HUGETLB), CALL_ENDS);
}

/* Whatever a call would do to memory that was shared, it is not made. */
TEST(calls_on_memory_that_was_shared)
{
	static const long numbers[] = { SYS_munmap, SYS_mprotect, SYS_mremap };
	struct copy copy = { .pid = 0 };
	long long result;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		CHECK_EQUAL(DECIDE(numbers[i], SHARED, 4096, 4096, 0), CALL_ENDS);
		CHECK_EQUAL(DECIDE(numbers[i], SHARED - 4096, 8192, 8192, 0), CALL_ENDS);
		CHECK_EQUAL(DECIDE(numbers[i], SHARED + 0xf000, UINT64_MAX, 4096, 0), CALL_ENDS);
		/* mremap() of 0 bytes maps shared memory a second time. */
		CHECK_EQUAL(DECIDE(numbers[i], SHARED, 0, 4096, 0), CALL_ENDS);
		CHECK_EQUAL(DECIDE(numbers[i], SHARED - 4096, 4096, 4096, 0), CALL_REAL);
		CHECK_EQUAL(DECIDE(numbers[i], SHARED + 0x10000, 4096, 4096, 0), CALL_REAL);
	}
	for (uint64_t advice = 0; advice < 200; advice++)
		CHECK_EQUAL(DECIDE(SYS_madvise, SHARED, 4096, advice, 0), CALL_ENDS);
}

/* Of private memory, too, since it may be a file's. */
TEST(advice_that_reaches_others)
{
	static const int private[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_DONTNEED,
				       MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP,
				       MADV_DODUMP };
	static const int public[] = { MADV_WILLNEED, MADV_REMOVE, MADV_MERGEABLE, 20 /* COLD */,
				      21 /* PAGEOUT */, 25 /* COLLAPSE */, 100 /* HWPOISON */,
				      101 /* SOFT_OFFLINE */, 1000 };
	struct copy copy = { .pid = 0 };
	long long result;

	for (size_t i = 0; i < sizeof(private) / sizeof(*private); i++)
		CHECK_EQUAL(DECIDE(SYS_madvise, 4096, 4096, (uint64_t)private[i], 0), CALL_REAL);
	for (size_t i = 0; i < sizeof(public) / sizeof(*public); i++)
		CHECK_EQUAL(DECIDE(SYS_madvise, 4096, 4096, (uint64_t)public[i], 0), CALL_ENDS);
}

TEST(calls_that_are_answered_made_and_not_made)
{
	struct copy copy = { .program = 17, .thread = 18 };
	long long result;

	CHECK_EQUAL(DECIDE(SYS_getpid, 0, 0, 0, 0), CALL_ANSWERED);
	CHECK_EQUAL(result, 17);
	CHECK_EQUAL(DECIDE(SYS_gettid, 0, 0, 0, 0), CALL_ANSWERED);
	CHECK_EQUAL(result, 18);
	CHECK_EQUAL(DECIDE(SYS_clock_gettime, 0, MEMORY, 0, 0), CALL_REAL);
	CHECK_EQUAL(DECIDE(SYS_write, 1, MEMORY, 1, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_kill, 1, 0, 0, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_exit_group, 0, 0, 0, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(9999, 0, 0, 0, 0), CALL_ENDS);
}

/* It never sleeps, and wakes nobody. */
TEST(futexes)
{
	const struct user_regs_struct start = traced_registers(WORLD_LOW);
	const uint32_t value = 7;
	struct copy copy;
	long long result;

	if (traced_map(WORLD_LOW) < 0)
		CHECK_SKIP("its addresses are in use");
	CHECK_EQUAL(traced_start(&copy, WORLD_LOW, &start), 0);
	CHECK_EQUAL(copy_write(&copy, MEMORY, &value, sizeof(value)), 0);
	CHECK_EQUAL(DECIDE(SYS_futex, MEMORY, FUTEX_WAIT_PRIVATE, 7, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_futex, MEMORY, FUTEX_WAIT_PRIVATE, 8, 0), CALL_ANSWERED);
	CHECK_EQUAL(result, -EAGAIN);
	CHECK_EQUAL(DECIDE(SYS_futex, 8, FUTEX_WAIT, 8, 0), CALL_ENDS);
	CHECK_EQUAL(DECIDE(SYS_futex, MEMORY, FUTEX_WAKE_PRIVATE, 1, 0), CALL_ANSWERED);
	CHECK_EQUAL(result, 0);
	CHECK_EQUAL(DECIDE(SYS_futex, MEMORY, FUTEX_REQUEUE, 1, 0), CALL_ENDS);
	copy_kill(&copy);
}

CHECK_MAIN
