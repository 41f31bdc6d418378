/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "thread_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "thread_facts.h"
#include "tracee.h"

/* Of the kernel alone: a call that a stop of the whole process interrupts is to be made again. */
#define RESTARTNOINTR 513
#define MOST_TRIES 1000u

/* A call of a helper's list, as trampoline_code.S reads it. */
struct listed_call {
	uint64_t number, arguments[4];
};

/*
 * No exit signal: the program does not notice the child's end.  Files are shared until a copy
 * closes its own, so that it never keeps one open.  The working directory is not: a shared one
 * keeps execve() from granting set-user-ID.
 */
static uint64_t clone_flags(const struct injector_request *request)
{
	return CLONE_FILES | (request->sibling ? CLONE_PARENT : 0u);
}

/* The thread clones itself.  Returns the child's PID as it sees that, or the error. */
static int64_t clone_thread(struct thread_stop *stop, uint64_t flags, pid_t *child)
{
	const uint64_t arguments[6] = { flags, 0, 0, 0, 0, TRAMPOLINE_CLONE };
	int64_t result = TRACEE_LOST;

	for (unsigned i = 0; i < MOST_TRIES; i++) {
		*child = 0;
		result = thread_stop_call(stop, SYS_clone, arguments, child);
		if (result != -RESTARTNOINTR)
			break;
	}
	return result >= 0 && !*child ? -ECHILD : result;
}

static void add_copy(const struct thread_stop *stop, struct injector_answer *answer, pid_t pid,
		     int64_t inner_pid)
{
	answer->copy[answer->copies++] = (struct copy){
		.pid = pid, .inner_pid = (pid_t)inner_pid, .program = stop->program,
		.thread = stop->thread, .taken_ns = clock_ns(), .start = stop->start,
		.call_instruction = stop->trampoline.call, .signal_mask = stop->mask,
	};
}

/* Returns 0, or an error of clone(). */
static int clone_directly(struct thread_stop *stop, const struct injector_request *request,
			  struct injector_answer *answer)
{
	while (answer->copies < request->copies) {
		pid_t child;
		const int64_t result = clone_thread(stop, clone_flags(request), &child);

		if (result < 0)
			return result == TRACEE_LOST ? ESRCH : (int)-result;
		add_copy(stop, answer, child, result);
	}
	return 0;
}

/*
 * A helper is a process that shares all memory with the program for as long as it takes to make a
 * list of calls: MADV_DOFORK, clone(), MADV_DONTFORK.  It makes them without us, so that nothing
 * stays changed if we are killed, and its copies, whose parent has ended, are the system's to reap.
 */
struct helper {
	struct thread_stop *stop;
	pid_t pid, inner_pid;
	uint64_t list, bytes;		/* where its calls are, in the program's memory */
};

/* Its calls, in an array that the caller frees; *bytes.  NULL: no memory. */
static struct listed_call *make_list(const struct helper *helper,
				     const struct injector_request *request, bool forks,
				     const struct unforked_memory *unforked)
{
	struct listed_call *list = calloc(helper->bytes / sizeof(*list), sizeof(*list));
	size_t n = 0;

	if (!list)
		return NULL;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < unforked->count; i++) {
			const struct memory_range *range = &unforked->ranges[i];

			list[n++] = (struct listed_call){ SYS_madvise, {
				range->start, range->end - range->start,
				(uint64_t)(pass ? MADV_DONTFORK : MADV_DOFORK) } };
		}
		/* A call that is a place to wait at, if the thread itself forks. */
		for (uint32_t i = 0; !pass && i < (forks ? request->copies : 1); i++)
			list[n++] = (struct listed_call){
				forks ? SYS_clone : SYS_getppid,
				{ forks ? clone_flags(request) : 0 } };
	}
	list[n] = (struct listed_call){ SYS_munmap, { helper->list, helper->bytes } };
	return list;
}

#define PAGE_BYTES 4096u

/* The priority of one process for another, unless both have real-time ones. */
static void set_priority(pid_t pid, pid_t like)
{
	const struct sched_param none = { 0 };
	const int policy = sched_getscheduler(like);

	if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE)
		sched_setscheduler(pid, policy, &none);
	setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, (id_t)like));
}

/* Returns 0 once it is about to make its first call; or an error, and it ends by itself. */
static int start_helper(struct helper *helper, const struct injector_request *request, bool forks,
			const struct unforked_memory *unforked)
{
	struct thread_stop *stop = helper->stop;
	const uint64_t flags = clone_flags(request) | CLONE_VM;
	const uint64_t most = (2 * unforked->count + INJECTOR_MOST_COPIES + 2) *
		sizeof(struct listed_call);
	struct user_regs_struct registers = stop->start;
	struct listed_call *list;
	struct iovec here, there;
	int64_t result;
	int error = 0;

	result = clone_thread(stop, flags, &helper->pid);
	if (result < 0)
		return result == TRACEE_LOST ? ESRCH : (int)-result;
	helper->inner_pid = (pid_t)result;
	/* The thread, which may have a low one, waits for it. */
	set_priority(helper->pid, getpid());
	helper->bytes = (most + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	registers.r13 = helper->bytes;
	if (tracee_wait_interrupted(helper->pid, TRACEE_FOR_EVER) < 0)
		return errno;
	result = tracee_call(helper->pid, &registers, trampoline_map_of(stop->trampoline.call),
			     SYS_mmap, (const uint64_t[6]){
				     0, helper->bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, UINT64_MAX, 0 },
			     TRACEE_FOR_EVER, NULL);
	if (result < 0)
		return result == TRACEE_LOST ? ESRCH : (int)-result;
	helper->list = (uint64_t)result;
	list = make_list(helper, request, forks, unforked);
	if (!list)
		return ENOMEM;
	here = (struct iovec){ list, helper->bytes };
	there = (struct iovec){ (void *)(uintptr_t)helper->list, helper->bytes };
	registers.rip = trampoline_list_of(stop->trampoline.call);
	registers.r12 = helper->list;
	registers.orig_rax = UINT64_MAX;
	if (process_vm_writev(helper->pid, &here, 1, &there, 1, 0) != (ssize_t)helper->bytes ||
	    ptrace(PTRACE_SETREGS, helper->pid, NULL, &registers) < 0)
		error = errno ? errno : EFAULT;
	free(list);
	return error;
}

/* Let it make all calls up to `number`, whose exit it is then at.  Returns 0, or an error. */
static int advance_to(const struct helper *helper, uint64_t number)
{
	struct user_regs_struct registers;
	bool entered = false;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, helper->pid, NULL, NULL) < 0 ||
		    tracee_wait(helper->pid, TRACEE_FOR_EVER, &status) < 0 || !WIFSTOPPED(status))
			return ESRCH;
		if (WSTOPSIG(status) != TRACEE_AT_CALL ||
		    ptrace(PTRACE_GETREGS, helper->pid, NULL, &registers) < 0)
			continue;
		entered = !entered;
		if (!entered && registers.orig_rax == number)
			return 0;
	}
}

/* Let it make the rest, collect the copies that it forks, and wait for its end. */
static void finish_helper(const struct helper *helper, struct injector_answer *answer)
{
	unsigned long child;
	int status;

	/* Signals to it are for nobody: all but SIGSTOP are blocked, and that is dropped. */
	while (ptrace(PTRACE_CONT, helper->pid, NULL, NULL) == 0 &&
	       tracee_wait(helper->pid, TRACEE_FOR_EVER, &status) == 0 && WIFSTOPPED(status))
		if (TRACEE_EVENT(status) == PTRACE_EVENT_CLONE &&
		    answer->copies < INJECTOR_MOST_COPIES &&
		    ptrace(PTRACE_GETEVENTMSG, helper->pid, NULL, &child) == 0) {
			set_priority((pid_t)child, helper->stop->thread);
			add_copy(helper->stop, answer, (pid_t)child, 0);
		}
}

/* Returns 0, or an error of clone(). */
static int clone_with_helper(struct thread_stop *stop, const struct injector_request *request,
			     bool is_init, const struct unforked_memory *unforked,
			     struct injector_answer *answer)
{
	struct helper helper = { .stop = stop };
	const bool forks = !is_init;
	int error = start_helper(&helper, request, forks, unforked);

	if (!helper.pid)
		return error;
	if (!error && !forks) {
		error = advance_to(&helper, SYS_getppid);
		if (!error)
			error = clone_directly(stop, request, answer);
	}
	finish_helper(&helper, answer);
	if (request->sibling)
		answer->helper = helper.pid;
	else
		thread_stop_call(stop, SYS_wait4,
				 (const uint64_t[6]){ (uint64_t)helper.inner_pid, 0, __WALL }, NULL);
	answer->orphaned = forks && !request->sibling;
	return error ? error : answer->copies < request->copies ? EAGAIN : 0;
}

enum injector_refusal thread_copy_make(struct thread_stop *stop,
				       const struct injector_request *request, bool is_init,
				       const struct unforked_memory *unforked,
				       struct injector_answer *answer)
{
	const uint64_t before_ns = clock_ns();
	int error;

	/*
	 * The first process of a PID namespace would be given its orphans, with a signal for each:
	 * it stays the parent of its copies.
	 */
	if (unforked->count || !(request->sibling || is_init))
		error = clone_with_helper(stop, request, is_init, unforked, answer);
	else
		error = clone_directly(stop, request, answer);
	answer->clone_ns = clock_ns() - before_ns;
	if (answer->copies == request->copies)
		return INJECTED;
	if (error == ESRCH)
		return REFUSED_GONE;
	answer->error = error;
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

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A descriptor that is readable when the tracer has ended; below 0: it is not visible from there. */
static int64_t open_tracer(const struct copy *copy, const struct injector_request *request)
{
	struct thread_facts facts;

	if (!request->tracer || thread_facts_read(copy->pid, copy->pid, &facts) < 0 ||
	    facts.namespaces > 1)
		return -1;
	return call(copy, SYS_pidfd_open, (uint64_t)request->tracer, 0, 0, 0);
}

/* It waits to be taken, and exits if that takes too long or its tracer ends. */
static int leave(const struct copy *copy, const struct injector_request *request)
{
	const int64_t tracer = open_tracer(copy, request);
	const struct pollfd end = { .fd = (int)tracer, .events = POLLIN };
	struct user_regs_struct registers = copy->start;
	uint64_t word;

	memcpy(&word, &end, sizeof(word));
	registers.rip = copy->call_instruction;
	registers.rax = SYS_ppoll;
	registers.orig_rax = (unsigned long)-1;
	registers.rdi = trampoline_poll_of(copy->call_instruction);
	/* In the copy's own vDSO page, which only a tracer can write. */
	registers.rsi = tracer >= 0 && ptrace(PTRACE_POKEDATA, copy->pid,
					      (void *)(uintptr_t)registers.rdi,
					      (void *)(uintptr_t)word) == 0;
	registers.r10 = 0;
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
	if (leave(copy, request) == 0)
		return 0;
	thread_copy_kill(copy->pid);
	return -1;
}
