/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "calls.h"
#include "clock.h"
#include "processes.h"
#include "tracee.h"

#define CALL_INSTRUCTION_BYTES 2u
/* On a shared CPU it takes longer than its own CPU time, but not forever. */
#define PATIENCE 20u
/* Half a millisecond each: a killed process frees its memory first. */
#define DEATH_TRIES 10000u
#define PATIENCE_NS UINT64_C(2000000000)

static int set_registers(const struct arm *arm)
{
	struct user_regs_struct registers = arm->registers;

	registers.orig_rax = UINT64_MAX;
	return ptrace(PTRACE_SETREGS, arm->copy.pid, NULL, &registers) < 0 ? -1 : 0;
}

int arm_fork(struct arm *arm, struct copy *from)
{
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;
	const uint64_t none[6] = { 0 };
	pid_t child = 0;
	int64_t result;
	int error;

	memset(arm, 0, sizeof(*arm));
	arm->at_call = -1;
	if (ptrace(PTRACE_SETOPTIONS, from->pid, NULL, options | PTRACE_O_TRACECLONE) < 0)
		return -1;
	/* No exit signal, like the copy. */
	result = tracee_call(from->pid, &from->start, from->call_instruction, SYS_clone, none,
			     TRACEE_OF_ONE_THREAD, &child);
	if (result < 0 || !child) {
		errno = result < 0 && result != TRACEE_LOST ? (int)-result : ESRCH;
		return -1;
	}
	arm->copy = *from;
	arm->copy.pid = child;
	arm->copy.inner_pid = (pid_t)result;
	arm->registers = from->start;
	if (tracee_wait_interrupted(child, TRACEE_OF_ONE_THREAD) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, child, NULL, options) < 0 || set_registers(arm) < 0 ||
	    /* It dies with the copy. */
	    arm_call(arm, SYS_prctl, (const uint64_t[6]){ PR_SET_PDEATHSIG, SIGKILL }) < 0 ||
	    shared_memory_isolate(&arm->shared, &arm->copy, &arm->registers, false) < 0) {
		error = errno;
		arm_kill(arm, from);
		errno = error;
		return -1;
	}
	return 0;
}

/* No signal reports its death. */
static void kill_untraced(pid_t pid)
{
	const struct timespec soon = { 0, 500000 };
	struct process_status status;

	kill(pid, SIGKILL);
	for (unsigned i = 0; i < DEATH_TRIES; i++) {
		if (process_status(pid, &status) < 0 || status.state == 'Z' || status.state == 'X')
			return;
		nanosleep(&soon, NULL);
	}
}

void arm_kill(struct arm *arm, struct copy *from)
{
	const uint64_t arguments[6] = { (uint64_t)arm->copy.inner_pid, 0, WNOHANG | __WALL };

	shared_memory_free(&arm->shared);
	if (arm->copy.pid <= 0)
		return;
	if (arm->untraced)
		kill_untraced(arm->copy.pid);
	copy_kill(&arm->copy);
	copy_call(from, &from->start, SYS_wait4, arguments);
}

int64_t arm_call(struct arm *arm, long number, const uint64_t arguments[6])
{
	return copy_call(&arm->copy, &arm->registers, number, arguments);
}

static uint64_t faults_of(pid_t pid)
{
	struct process_status status;

	return process_status(pid, &status) < 0 ? 0 : status.minor_faults;
}

/* It is at the entry of a call: the kernel makes none. */
static int leave_call(const struct arm *arm)
{
	struct user_regs_struct registers = arm->registers;
	int status;

	registers.orig_rax = UINT64_MAX;
	if (ptrace(PTRACE_SETREGS, arm->copy.pid, NULL, &registers) < 0 ||
	    ptrace(PTRACE_SYSCALL, arm->copy.pid, NULL, NULL) < 0 ||
	    tracee_wait(arm->copy.pid, TRACEE_OF_ONE_THREAD, &status) < 0)
		return -1;
	return WIFSTOPPED(status) && WSTOPSIG(status) == TRACEE_AT_CALL ? 0 : -1;
}

/*
 * It is about to make a call.  Returns ARM_TIME if it can continue behind it, else the end; its
 * registers are then before the call.
 */
static enum arm_end at_call(struct arm *arm)
{
	const struct call_limits limits = { .shared = &arm->shared };
	const struct user_regs_struct before = arm->registers;
	struct user_regs_struct *r = &arm->registers;
	enum call_verdict verdict;
	int64_t result;

	if (leave_call(arm) < 0)
		return ARM_GONE;
	r->rax = r->orig_rax;
	verdict = calls_decide(&arm->copy, r, &limits);
	if (verdict == CALL_ENDS) {
		arm->at_call = (int64_t)before.orig_rax;
		*r = before;
		r->rax = before.orig_rax;
		r->rip -= CALL_INSTRUCTION_BYTES;
		return set_registers(arm) < 0 ? ARM_GONE : ARM_CALL;
	}
	result = (int64_t)r->rax;
	if (verdict == CALL_REAL)
		result = arm_call(arm, (long)r->rax, (const uint64_t[6]){ r->rdi, r->rsi, r->rdx, r->r10,
									  r->r8, r->r9 });
	if (result == COPY_LOST)
		return ARM_GONE;
	*r = before;
	r->rax = (unsigned long long)result;
	r->orig_rax = UINT64_MAX;
	return set_registers(arm) < 0 ? ARM_GONE : ARM_TIME;
}

/* Continues until the next stop, or for so long.  Returns 0, 1 if it was stopped by us, or -1. */
static int go_on(const struct arm *arm, uint64_t deadline_ns, int *status)
{
	const pid_t pid = arm->copy.pid;

	/*
	 * Each call stops it twice: only its entry is of interest, and it is never left natively.
	 */
	if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0)
		return -1;
	if (tracee_wait(pid, deadline_ns, status) == 0)
		return WIFSTOPPED(*status) ? 0 : -1;
	if (errno != ETIMEDOUT || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 ||
	    tracee_wait(pid, TRACEE_OF_ONE_THREAD, status) < 0 || !WIFSTOPPED(*status))
		return -1;
	return TRACEE_EVENT(*status) == PTRACE_EVENT_STOP;
}

/*
 * Our interruption may overtake a debug register's trap, which is reported when the arm runs again.
 * Is it of an earlier check point?
 */
static bool is_old_trap(pid_t pid)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_code == TRAP_HWBKPT;
}

/* The end of a stretch at this stop; ARM_TIME: it continues. */
static enum arm_end at_stop(struct arm *arm, struct check_point *until, int status)
{
	if (TRACEE_EVENT(status))
		return ARM_TIME;
	if (ptrace(PTRACE_GETREGS, arm->copy.pid, NULL, &arm->registers) < 0)
		return ARM_GONE;
	if (WSTOPSIG(status) == TRACEE_AT_CALL)
		return at_call(arm);
	if (WSTOPSIG(status) != SIGTRAP)
		return ARM_SIGNAL;
	switch (until ? check_point_stopped(until, arm->copy.pid, &arm->registers) : CHECK_NO_HIT) {
	case CHECK_HIT:
		return ARM_CHECKED;
	case CHECK_TIGHT:
		return ARM_TIGHT;
	case CHECK_OTHER:
		return ARM_TIME;
	case CHECK_NO_HIT:
		break;
	}
	return is_old_trap(arm->copy.pid) ? ARM_TIME : ARM_SIGNAL;
}

static enum arm_end run(struct arm *arm, struct check_point *until, uint64_t ns, uint32_t *stops)
{
	/* An arm without pages of its own spends long in the kernel for its first writes. */
	uint64_t (*const time_of)(pid_t) = until ? process_cpu_ns : process_user_ns;
	const uint64_t begin_ns = time_of(arm->copy.pid);
	const uint64_t end_ns = clock_ns() + PATIENCE * ns + PATIENCE_NS;
	enum arm_end end;
	int status;

	for (;;) {
		const uint64_t ran_ns = time_of(arm->copy.pid) - begin_ns;
		const uint64_t now_ns = clock_ns();
		int stopped;

		if (ran_ns >= ns || now_ns >= end_ns)
			return ARM_TIME;
		stopped = go_on(arm, now_ns + (ns - ran_ns), &status);
		if (stopped < 0)
			return ARM_GONE;
		if (stopped)
			continue;
		++*stops;
		end = at_stop(arm, until, status);
		if (end != ARM_TIME)
			return end;
	}
}

enum arm_end arm_run(struct arm *arm, struct check_point *until, uint64_t ns,
		     struct arm_stretch *stretch)
{
	const pid_t pid = arm->copy.pid;
	const uint64_t faults = faults_of(pid);
	uint64_t before_ns;
	enum arm_end end;

	if (arm->at_call >= 0)
		return ARM_CALL;
	if (until && check_point_watch(until, pid) < 0)
		return ARM_GONE;
	before_ns = process_cpu_ns(pid);
	end = run(arm, until, ns, &stretch->stops);
	if (end == ARM_GONE)
		return end;
	stretch->cpu_ns += process_cpu_ns(pid) - before_ns;
	stretch->faults += faults_of(pid) - faults;
	if (until)
		check_point_disarm(pid);
	/* Where it is, for our calls. */
	if (end == ARM_TIME || end == ARM_TIGHT) {
		if (ptrace(PTRACE_GETREGS, pid, NULL, &arm->registers) < 0)
			return ARM_GONE;
	}
	arm->registers.orig_rax = UINT64_MAX;
	return end;
}
