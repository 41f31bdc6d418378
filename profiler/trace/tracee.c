/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tracee.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "clock.h"

#define NS 1000000000u
/*
 * If another thread of the program executes a program, this one is gone, and waitpid() does not
 * return (Linux 6.18): look again.
 */
#define SLICE_NS 20000000u

static void (*look_at_others)(void);

void tracee_look_at_others(void (*others)(void))
{
	look_at_others = others;
}

/* A tracer gets SIGCHLD whenever a tracee stops. */
static void await_news(uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / NS), (long)(ns % NS) };
	sigset_t news;

	sigemptyset(&news);
	sigaddset(&news, SIGCHLD);
	sigtimedwait(&news, NULL, &time);
	if (look_at_others)
		look_at_others();
}

int tracee_wait(pid_t tid, uint64_t deadline_ns, int *status)
{
	for (;;) {
		pid_t rc = waitpid(tid, status, __WALL | (deadline_ns ? WNOHANG : 0));
		uint64_t now;

		if (rc == tid)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -1;
		if (rc < 0)
			continue;
		now = clock_ns();
		if (now >= deadline_ns) {
			errno = ETIMEDOUT;
			return -1;
		}
		await_news(deadline_ns - now < SLICE_NS ? deadline_ns - now : SLICE_NS);
	}
}

int tracee_wait_interrupted(pid_t tid, uint64_t deadline_ns)
{
	int status;

	for (;;) {
		if (tracee_wait(tid, deadline_ns, &status) < 0) {
			if (errno == ECHILD)
				errno = ESRCH;
			return -1;
		}
		if (!WIFSTOPPED(status)) {
			errno = ESRCH;
			return -1;
		}
		if (TRACEE_EVENT(status) == PTRACE_EVENT_STOP)
			return WSTOPSIG(status);
		/* A signal on its way, which is its own; at a system call there is none. */
		ptrace(PTRACE_CONT, tid, NULL, TRACEE_EVENT(status) ||
		       WSTOPSIG(status) == TRACEE_AT_CALL ? 0L : (long)WSTOPSIG(status));
	}
}

static pid_t born(pid_t tid)
{
	unsigned long message;

	return ptrace(PTRACE_GETEVENTMSG, tid, NULL, &message) < 0 ? 0 : (pid_t)message;
}

/* Returns -1 if it ends; else 1 when it has stopped at a call. */
static int go_to_call(pid_t tid, uint64_t deadline_ns, pid_t *child)
{
	long signal = 0;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, tid, NULL, signal) < 0 ||
		    tracee_wait(tid, deadline_ns, &status) < 0 || !WIFSTOPPED(status))
			return -1;
		if (WSTOPSIG(status) == TRACEE_AT_CALL)
			return 1;
		signal = 0;
		switch (TRACEE_EVENT(status)) {
		case 0:
			/*
			 * SIGSTOP, which cannot be blocked: all of the process stops, but this
			 * thread, which does so when it is let go.
			 */
			signal = WSTOPSIG(status);
			break;
		case PTRACE_EVENT_CLONE:
		case PTRACE_EVENT_FORK:
		case PTRACE_EVENT_VFORK:
			if (child)
				*child = born(tid);
			break;
		case PTRACE_EVENT_EXIT:
			return -1;
		default:
			break;
		}
	}
}

int64_t tracee_call(pid_t tid, const struct user_regs_struct *registers, uint64_t instruction,
		    long call, const uint64_t arguments[6], uint64_t deadline_ns, pid_t *child)
{
	struct user_regs_struct changed = *registers;

	changed.rip = instruction;
	changed.rax = (unsigned long)call;
	/* Else the kernel might take it for a call to restart. */
	changed.orig_rax = (unsigned long)-1;
	changed.rdi = arguments[0];
	changed.rsi = arguments[1];
	changed.rdx = arguments[2];
	changed.r10 = arguments[3];
	changed.r8 = arguments[4];
	changed.r9 = arguments[5];
	if (ptrace(PTRACE_SETREGS, tid, NULL, &changed) < 0)
		return TRACEE_LOST;
	/* Its entry and its exit. */
	if (go_to_call(tid, deadline_ns, NULL) < 0 || go_to_call(tid, deadline_ns, child) < 0 ||
	    ptrace(PTRACE_GETREGS, tid, NULL, &changed) < 0)
		return TRACEE_LOST;
	return (int64_t)changed.rax;
}
