/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "thread_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "thread_facts.h"
#include "tracee.h"

/* Of the kernel alone: a call that a stop of the whole process interrupts is to be made again. */
#define RESTARTNOINTR 513
#define MOST_TRIES 1000u

static int64_t make_one(struct thread_stop *stop, bool sibling, pid_t *child)
{
	/*
	 * No exit signal: the program does not notice the copy's end.  Files are shared until the
	 * copy closes its own, so that it never keeps one open.  The working directory is not: a
	 * shared one keeps execve() from granting set-user-ID.
	 */
	const uint64_t arguments[6] = { CLONE_FILES | (sibling ? CLONE_PARENT : 0u), 0, 0, 0, 0,
					TRAMPOLINE_CLONE };
	int64_t result = TRACEE_LOST;

	for (unsigned i = 0; i < MOST_TRIES; i++) {
		*child = 0;
		result = thread_stop_call(stop, SYS_clone, arguments, child);
		if (result != -RESTARTNOINTR)
			break;
	}
	return result;
}

static void advise(struct thread_stop *stop, const struct unforked_memory *unforked, int advice)
{
	for (size_t i = 0; i < unforked->count; i++) {
		const struct memory_range *range = &unforked->ranges[i];
		const uint64_t arguments[6] = { range->start, range->end - range->start,
						(uint64_t)advice };

		if (thread_stop_call(stop, SYS_madvise, arguments, NULL) == TRACEE_LOST)
			return;
	}
}

enum injector_refusal thread_copy_make(struct thread_stop *stop,
				       const struct injector_request *request,
				       const struct unforked_memory *unforked,
				       struct injector_answer *answer)
{
	uint64_t before_ns;
	int64_t result = 0;
	pid_t child;

	advise(stop, unforked, MADV_DOFORK);
	while (answer->copies < request->copies) {
		struct copy *copy = &answer->copy[answer->copies];

		before_ns = clock_ns();
		result = make_one(stop, request->sibling, &child);
		answer->clone_ns += clock_ns() - before_ns;
		if (result < 0 || !child)
			break;
		*copy = (struct copy){
			.pid = child, .inner_pid = (pid_t)result, .program = stop->program,
			.thread = stop->thread, .taken_ns = clock_ns(), .start = stop->start,
			.call_instruction = stop->trampoline.call, .signal_mask = stop->mask,
		};
		answer->copies++;
	}
	advise(stop, unforked, MADV_DONTFORK);
	if (result == TRACEE_LOST)
		return REFUSED_GONE;
	if (answer->copies == request->copies)
		return INJECTED;
	answer->error = result < 0 ? (int32_t)-result : ECHILD;
	return REFUSED_CLONE;
}

void thread_copy_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (tracee_wait(pid, TRACEE_OF_ONE_THREAD, &status) == 0 && WIFSTOPPED(status))
		;
}

static int64_t call(const struct copy *copy, long number, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d)
{
	const uint64_t arguments[6] = { a, b, c, d };

	return tracee_call(copy->pid, &copy->start, copy->call_instruction, number, arguments,
			   TRACEE_OF_ONE_THREAD, NULL);
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define CLOSE_UNSHARED 2u
#define MOST_FILES_ONE_BY_ONE 65536u

/* Kernels before 5.9 have no close_range(). */
static int close_one_by_one(const struct copy *copy)
{
	if (call(copy, SYS_unshare, CLONE_FILES, 0, 0, 0) != 0)
		return -1;
	for (unsigned fd = 0, unused = 0; fd < MOST_FILES_ONE_BY_ONE && unused < 1024; fd++) {
		int64_t result = call(copy, SYS_close, fd, 0, 0, 0);

		if (result == TRACEE_LOST)
			return -1;
		unused = result == -EBADF ? unused + 1 : 0;
	}
	return 0;
}

static int close_files(const struct copy *copy)
{
	int64_t result = call(copy, SYS_close_range, 0, ~0u, CLOSE_UNSHARED, 0);

	if (result == -ENOSYS || result == -EINVAL)
		return close_one_by_one(copy);
	return result == 0 ? 0 : -1;
}

#define ARCH_SHSTK_DISABLE 0x5002
#define ARCH_SHSTK_UNLOCK 0x5004
#define SHSTK 1u
#define ARCH_PRCTL_REQUEST 30

/* Translated code returns to places that no call has left. */
static void disable_shadow_stack(const struct copy *copy)
{
	ptrace(ARCH_PRCTL_REQUEST, copy->pid, (void *)(uintptr_t)SHSTK,
	       (void *)(uintptr_t)ARCH_SHSTK_UNLOCK);
	call(copy, SYS_arch_prctl, ARCH_SHSTK_DISABLE, SHSTK, 0, 0);
}

/* The first to be killed when memory is short. */
static void offer_to_oom_killer(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0) {
		/* It is a convenience. */
	}
	close(fd);
}

/* Detach it from everything that could notice it, or that it could notice. */
static int cut_off(const struct copy *copy, const struct injector_request *request)
{
	struct thread_facts facts;

	if (close_files(copy) < 0 || thread_facts_read(copy->pid, copy->pid, &facts) < 0)
		return -1;
	/* Out of the program's process group: it may be waited for, and signalled. */
	call(copy, SYS_setsid, 0, 0, 0, 0);
	if (facts.shadow_stack)
		disable_shadow_stack(copy);
	if (request->sibling)
		call(copy, SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	/* Yama; in another namespace the tracer has no PID. */
	if (request->tracer)
		call(copy, SYS_prctl, PR_SET_PTRACER, facts.namespaces > 1 ? PR_SET_PTRACER_ANY :
		     (uint64_t)request->tracer, 0, 0);
	return 0;
}

/* It waits to be taken, and exits if that takes too long. */
static int leave(const struct copy *copy)
{
	struct user_regs_struct registers = copy->start;

	registers.rip = copy->call_instruction;
	registers.rax = SYS_ppoll;
	registers.orig_rax = (unsigned long)-1;
	registers.rdi = registers.rsi = registers.r10 = 0;
	registers.rdx = trampoline_life(copy->call_instruction);
	registers.r9 = TRAMPOLINE_END;
	if (ptrace(PTRACE_SETREGS, copy->pid, NULL, &registers) < 0)
		return -1;
	return ptrace(PTRACE_DETACH, copy->pid, NULL, NULL) < 0 ? -1 : 0;
}

int thread_copy_park(const struct copy *copy, const struct injector_request *request)
{
	if (tracee_wait_interrupted(copy->pid, TRACEE_OF_ONE_THREAD) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, copy->pid, NULL,
		   (long)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD)) < 0 ||
	    cut_off(copy, request) < 0) {
		thread_copy_kill(copy->pid);
		return -1;
	}
	offer_to_oom_killer(copy->pid);
	if (leave(copy) == 0)
		return 0;
	thread_copy_kill(copy->pid);
	return -1;
}
