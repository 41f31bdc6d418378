/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A forked child with code, data and registers of the test's choice, taken as if it were a copy. */
#ifndef TLBCOST_TEST_TRACED_H
#define TLBCOST_TEST_TRACED_H

#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "copy.h"

/* Where the parts of a world are: code, pointers that it jumps by, and memory that it accesses. */
#define WORLD_LOW UINT64_C(0x10000000)
#define WORLD_HIGH UINT64_C(0x300000000000)
#define CODE_BYTES 0x10000u
#define POINTERS 0x20000u
#define ARENA 0x100000u
#define ARENA_BYTES 0x3000u
#define WORLD_BYTES (ARENA + ARENA_BYTES)
/* A `syscall` instruction in each world. */
#define CALL_AT (CODE_BYTES - 16u)

#define XSTATE_BYTES 8192u

struct xstate {
	uint8_t image[XSTATE_BYTES];
	size_t bytes;
};

/* Maps it in this process, from where its children have it.  Returns 0, or -1. */
static inline int traced_map(uint64_t world)
{
	uint8_t *at = (uint8_t *)(uintptr_t)world;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	if (mmap(at, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0) != at ||
	    mmap(at + POINTERS, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) != at + POINTERS ||
	    mmap(at + ARENA, ARENA_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) != at + ARENA)
		return -1;
	memset(at, 0xcc, CODE_BYTES);
	memcpy(at + CALL_AT, "\x0f\x05", 2);
	return 0;
}

/* Registers for the start of the world's code, with a stack in its arena. */
static inline struct user_regs_struct traced_registers(uint64_t world)
{
	return (struct user_regs_struct){
		.rip = world, .rsp = world + ARENA + 0x2000, .eflags = 0x202, .cs = 0x33, .ss = 0x2b,
		.orig_rax = (unsigned long long)-1, .fs_base = world + ARENA + 0x800,
	};
}

/* Returns 0, or -1 with errno; traced_end() comes next. */
static inline int traced_start(struct copy *copy, uint64_t world,
			       const struct user_regs_struct *start)
{
	*copy = (struct copy){ .program = getpid(), .thread = getpid(), .start = *start,
			       .call_instruction = world + CALL_AT };
	copy->pid = fork();
	if (copy->pid == 0) {
		sigset_t all;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		for (;;)
			pause();
	}
	if (copy->pid < 0)
		return -1;
	return copy_take(copy);
}

static inline int traced_get(const struct copy *copy, struct xstate *state)
{
	struct iovec part = { state->image, sizeof(state->image) };

	if (ptrace(PTRACE_GETREGSET, copy->pid, (void *)(uintptr_t)NT_X86_XSTATE, &part) < 0)
		return -1;
	state->bytes = part.iov_len;
	return 0;
}

static inline int traced_set(const struct copy *copy, struct xstate *state)
{
	struct iovec part = { state->image, state->bytes };

	return ptrace(PTRACE_SETREGSET, copy->pid, (void *)(uintptr_t)NT_X86_XSTATE, &part) < 0 ?
		       -1 : 0;
}

#endif
