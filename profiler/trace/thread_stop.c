/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "thread_stop.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "clock.h"
#include "refusal.h"
#include "thread_facts.h"
#include "tracee.h"

#define GET_RSEQ_CONFIGURATION 0x420f

/* As ptrace gives it. */
struct configuration {
	uint64_t area;
	uint32_t size, signature, flags, pad;
};

/* struct rseq_cs of linux/rseq.h. */
struct sequence {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* Of struct rseq: where the address of the sequence is that the thread is in. */
#define SEQUENCE_OFFSET 8u

static bool peek(pid_t thread, uint64_t address, void *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(thread, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/*
 * If it is, change its registers as the kernel would to abort the sequence, which must not continue
 * after our system calls.  Not visible before Linux 5.13.
 */
static bool restartable_abort(pid_t thread, struct user_regs_struct *registers)
{
	struct configuration configuration = { .area = 0 };
	struct sequence sequence;
	uint64_t address;

	if (ptrace(GET_RSEQ_CONFIGURATION, thread, sizeof(configuration), &configuration) < 0 ||
	    !configuration.area ||
	    !peek(thread, configuration.area + SEQUENCE_OFFSET, &address, sizeof(address)) ||
	    !address || !peek(thread, address, &sequence, sizeof(sequence)) ||
	    registers->rip - sequence.start >= sequence.length)
		return false;
	/* The kernel clears the address as soon as the thread runs elsewhere: in our calls. */
	registers->rip = sequence.abort;
	return true;
}

enum interrupted_call {
	CALL_OVER,	/* there is none, or it has returned */
	CALL_RESTARTED,	/* the kernel restarts it, if the registers are unchanged */
	CALL_REWOUND,	/* it failed because of us: `own` is changed to make it again */
};

/*
 * `own`: registers of a thread in a stop of PTRACE_INTERRUPT; `start`: the same, changed so that
 * the thread makes the call again wherever it is continued.  `signalled`: a signal is pending that
 * interrupts calls.
 */
enum interrupted_call interrupted_call(struct user_regs_struct *own,
				       struct user_regs_struct *start, bool signalled);

/* syscall: 0f 05; int 0x80: cd 80. */
#define INSTRUCTION_BYTES 2u

/* Of the kernel alone (include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };

/*
 * Calls that a mere stop ends with EINTR (signal(7), and the kernel's source).  They have done
 * nothing then, and can be made again.
 */
static bool is_interrupted_by_stop(long call)
{
	switch (call) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2 */
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case 426: /* io_uring_enter */
	case SYS_fallocate:	/* of tmpfs */
	/* Of inotify, and of sockets with a timeout (SO_RCVTIMEO, SO_SNDTIMEO). */
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_connect:
		return true;
	default:
		return false;
	}
}

static void again(struct user_regs_struct *registers)
{
	registers->rax = registers->orig_rax;
	registers->rip -= INSTRUCTION_BYTES;
	registers->orig_rax = (unsigned long)-1;
}

enum interrupted_call interrupted_call(struct user_regs_struct *own,
				       struct user_regs_struct *start, bool signalled)
{
	enum interrupted_call result = CALL_OVER;

	if ((long)own->orig_rax >= 0) {
		switch (-(long)own->rax) {
		case RESTARTSYS:
		case RESTARTNOINTR:
		case RESTARTNOHAND:
		case RESTART_BLOCK:
			again(start);
			result = CALL_RESTARTED;
			break;
		case EINTR:
			if (signalled || !is_interrupted_by_stop((long)own->orig_rax))
				break;
			again(own);
			again(start);
			result = CALL_REWOUND;
			break;
		case EPERM:
			/* It asks its parent to trace it: a process has one tracer, which we were. */
			if (own->orig_rax != SYS_ptrace || own->rdi != PTRACE_TRACEME)
				break;
			again(own);
			again(start);
			result = CALL_REWOUND;
			break;
		default:
			break;
		}
	}
	start->orig_rax = (unsigned long)-1;
	return result;
}

#define CODE_SEGMENT_64BIT 0x33u
#define MOST_LATE 64u

/* Asked to stop, and not stopped yet: in an uninterruptible sleep, or the parent of a vfork(). */
static struct {
	pid_t program, thread;
} late[MOST_LATE];
static unsigned late_count;

/*
 * What the stop did to a call that it interrupted.  Returns INJECTED; or a refusal, and it may be
 * let go with its `own` registers.
 */
static enum injector_refusal examine(struct thread_stop *stop, int32_t *error)
{
	struct thread_facts facts;
	bool signalled;

	if (ptrace(PTRACE_GETREGS, stop->thread, NULL, &stop->own) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, stop->thread, sizeof(stop->mask), &stop->mask) < 0 ||
	    thread_facts_read(stop->program, stop->thread, &facts) < 0) {
		*error = errno;
		return refusal_of_error(errno);
	}
	stop->start = stop->own;
	signalled = thread_facts_interrupted(&facts, facts.blocked);
	switch (interrupted_call(&stop->own, &stop->start, signalled)) {
	case CALL_RESTARTED:
		stop->restarted = true;
		break;
	case CALL_REWOUND:
		stop->rewound = true;
		break;
	case CALL_OVER:
		break;
	}
	if (stop->own.cs != CODE_SEGMENT_64BIT)
		return REFUSED_32BIT;
	if (trampoline_is_under_way(&stop->trampoline, stop->thread, stop->own.rip))
		return REFUSED_BUSY;
	if (facts.seccomp || refusal_dispatches_calls(stop->thread))
		return REFUSED_SECCOMP;
	/*
	 * In a call with a mask of its own (ppoll, sigsuspend) blocked is that mask, and ->mask the
	 * thread's, to which PTRACE_SETSIGMASK returns; the call is made again and sets its mask again.
	 * A signal that this mask admits has to be delivered first.
	 */
	return facts.blocked == stop->mask || !signalled ? INJECTED : REFUSED_SLEEPING;
}

static void remember_late(pid_t program, pid_t thread)
{
	if (late_count == MOST_LATE)
		return;
	late[late_count].program = program;
	late[late_count].thread = thread;
	late_count++;
}

static void let_go(struct thread_stop *stop)
{
	if (stop->rewound)
		ptrace(PTRACE_SETREGS, stop->thread, NULL, &stop->own);
	if (ptrace(PTRACE_DETACH, stop->thread, NULL, NULL) < 0)
		remember_late(stop->program, stop->thread);
}

/* One that has stopped: because of us, at a system call, or for a signal that it gets. */
static void release(struct thread_stop *stop, int status)
{
	int32_t error;
	long signal = 0;

	if (TRACEE_EVENT(status) == PTRACE_EVENT_STOP) {
		if (WSTOPSIG(status) == SIGTRAP)
			examine(stop, &error);
		let_go(stop);
		return;
	}
	if (!TRACEE_EVENT(status) && WSTOPSIG(status) != TRACEE_AT_CALL)
		signal = WSTOPSIG(status);
	ptrace(PTRACE_DETACH, stop->thread, NULL, signal);
}

/*
 * One whose calls were recorded stops at its next call: but it may make none for long, and then it
 * would neither be copied nor reap.  If it sleeps, a stop would end some calls: see interrupted_call.h.
 */
static void hasten(const struct thread_stop *stop)
{
	struct thread_facts facts;

	if (thread_facts_read(stop->program, stop->thread, &facts) == 0 && facts.state == 'R')
		ptrace(PTRACE_INTERRUPT, stop->thread, NULL, NULL);
}

bool thread_stop_release_late(void)
{
	for (unsigned i = 0; i < late_count;) {
		struct thread_stop stop = { .program = late[i].program, .thread = late[i].thread };
		int status;
		pid_t rc = waitpid(stop.thread, &status, __WALL | WNOHANG);

		if (rc == 0) {
			hasten(&stop);
			i++;
			continue;
		}
		if (rc < 0 && stop.thread != stop.program) {
			/* execve() took it away: it is the program's first thread now. */
			late[i].thread = stop.program;
			continue;
		}
		late[i] = late[--late_count];
		if (rc > 0 && WIFSTOPPED(status))
			release(&stop, status);
	}
	return late_count > 0;
}

static bool is_late(pid_t thread)
{
	for (unsigned i = 0; i < late_count; i++)
		if (late[i].thread == thread)
			return true;
	return false;
}

/* Returns INJECTED once it has stopped because of us. */
static enum injector_refusal interrupt(struct thread_stop *stop, uint32_t wait_ms, int32_t *error)
{
	int signal;

	if (ptrace(PTRACE_SEIZE, stop->thread, NULL, (long)PTRACE_O_TRACESYSGOOD) < 0) {
		*error = errno;
		return refusal_to_trace(stop->program, stop->thread);
	}
	stop->since_ns = clock_ns();
	ptrace(PTRACE_INTERRUPT, stop->thread, NULL, NULL);
	signal = tracee_wait_interrupted(stop->thread,
					 stop->since_ns + wait_ms * UINT64_C(1000000));
	if (signal == SIGTRAP)
		return INJECTED;
	if (signal >= 0) {
		ptrace(PTRACE_DETACH, stop->thread, NULL, NULL);
		return REFUSED_STOPPED;
	}
	*error = errno;
	if (errno != ETIMEDOUT) {
		/* Was it execve() that took it away?  It is the program's first thread then, and still ours. */
		if (stop->thread != stop->program)
			remember_late(stop->program, stop->program);
		return REFUSED_GONE;
	}
	remember_late(stop->program, stop->thread);
	return REFUSED_BUSY;
}

enum injector_refusal thread_stop_begin(struct thread_stop *stop, pid_t program, pid_t thread,
					bool sleeping, uint32_t wait_ms, int32_t *error)
{
	struct thread_facts facts;
	enum injector_refusal refusal;

	*error = 0;
	memset(stop, 0, sizeof(*stop));
	stop->program = program;
	stop->thread = thread;
	if (is_late(thread) || late_count == MOST_LATE)
		return REFUSED_BUSY;
	if (thread_facts_read(program, thread, &facts) < 0) {
		*error = errno;
		return refusal_of_error(errno);
	}
	refusal = refusal_of_facts(&facts, sleeping);
	if (refusal != INJECTED)
		return refusal;
	if (trampoline_open(&stop->trampoline, program, thread) < 0) {
		*error = errno;
		return errno == ENOENT ? REFUSED_NO_INSTRUCTION : refusal_of_error(errno);
	}
	refusal = interrupt(stop, wait_ms, error);
	if (refusal == INJECTED) {
		refusal = examine(stop, error);
		if (refusal != INJECTED)
			let_go(stop);
	}
	if (refusal != INJECTED)
		trampoline_close(&stop->trampoline);
	return refusal;
}

int thread_stop_prepare(struct thread_stop *stop)
{
	const uint64_t all = ~(uint64_t)0;
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
		PTRACE_O_TRACEVFORK;
	struct user_regs_struct registers;

	/* What the kernel does when a thread that was stopped there continues. */
	if (restartable_abort(stop->thread, &stop->own)) {
		stop->start.rip = stop->own.rip;
		stop->rseq_aborted = true;
	}
	registers = stop->start;
	stop->called = true;
	/* In this order: from here on it goes back by itself, and then signals may wait. */
	if (trampoline_lay(&stop->trampoline, stop->thread, stop->mask, &registers) < 0 ||
	    ptrace(PTRACE_SETREGS, stop->thread, NULL, &registers) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, stop->thread, sizeof(all), &all) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, stop->thread, NULL, options) < 0)
		return -1;
	return 0;
}

int64_t thread_stop_call(struct thread_stop *stop, long call, const uint64_t arguments[6],
			 pid_t *child)
{
	return tracee_call(stop->thread, &stop->start, stop->trampoline.call, call, arguments,
			   TRACEE_FOR_EVER, child);
}

static int give_back(struct thread_stop *stop)
{
	if (stop->called)
		trampoline_lift(&stop->trampoline, stop->thread, &stop->start);
	if (stop->called && stop->restarted) {
		/*
		 * At the exit of a call the kernel has decided already not to restart one.  It does
		 * so again after a stop where it looks for signals.
		 */
		ptrace(PTRACE_INTERRUPT, stop->thread, NULL, NULL);
		ptrace(PTRACE_CONT, stop->thread, NULL, NULL);
		if (tracee_wait_interrupted(stop->thread, TRACEE_FOR_EVER) < 0)
			return -1;
	}
	if (stop->called &&
	    (ptrace(PTRACE_SETOPTIONS, stop->thread, NULL, (long)PTRACE_O_TRACESYSGOOD) < 0 ||
	     ptrace(PTRACE_SETSIGMASK, stop->thread, sizeof(stop->mask), &stop->mask) < 0))
		return -1;
	/* Last: until now it would have gone back by itself. */
	return ptrace(PTRACE_SETREGS, stop->thread, NULL, &stop->own) < 0 ? -1 : 0;
}

int thread_stop_restore(struct thread_stop *stop)
{
	int rc = give_back(stop);

	stop->called = false;
	return rc;
}

void thread_stop_detach(struct thread_stop *stop, int signal)
{
	/* One that has been killed is the tracer's to wait for. */
	if (ptrace(PTRACE_DETACH, stop->thread, NULL, (long)signal) < 0)
		remember_late(stop->program, stop->thread);
	trampoline_close(&stop->trampoline);
}

void thread_stop_detach_later(struct thread_stop *stop)
{
	remember_late(stop->program, stop->thread);
	trampoline_close(&stop->trampoline);
}
