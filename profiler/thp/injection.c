/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "injection.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_SYSCALL (SIGTRAP | 0x80)

int injection_begin(struct injection *injection, pid_t tid, const struct registers *registers)
{
	const uint64_t all = ~(uint64_t)0;

	memset(injection, 0, sizeof(*injection));
	injection->tid = tid;
	injection->saved = *registers;
	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(injection->mask), &injection->mask) < 0)
		return -1;
	return ptrace(PTRACE_SETSIGMASK, tid, sizeof(all), &all) < 0 ? -1 : 0;
}

static int wait_for(struct injection *injection)
{
	pid_t rc;

	do
		rc = waitpid(injection->tid, &injection->status, __WALL);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -1 : 0;
}

/* What else can happen to a thread whose signals are blocked. */
static void look_at_stop(struct injection *injection)
{
	int event = injection->status >> 16;
	int signal = WSTOPSIG(injection->status);

	if (event == PTRACE_EVENT_EXIT) {
		injection->ended = 1;
	} else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		injection->was_stopped = 1;
	} else if (!event && signal == SIGSTOP) {
		/* It cannot be blocked, and has to wait all the same. */
		injection->stop_waits = 1;
	}
}

int injection_call(struct injection *injection, long call, const uint64_t arguments[6],
		   int64_t *result)
{
	struct registers registers = injection->saved;
	int stops = 0;

	registers_make_call(&registers, call, arguments);
	if (registers_write(injection->tid, &registers) < 0)
		return -1;
	/* The call's entry and its exit. */
	while (stops < 2) {
		if (ptrace(PTRACE_SYSCALL, injection->tid, NULL, NULL) < 0 ||
		    wait_for(injection) < 0)
			return -1;
		if (!WIFSTOPPED(injection->status)) {
			injection->ended = 1;
			return -1;
		}
		if (WSTOPSIG(injection->status) == AT_SYSCALL)
			stops++;
		else
			look_at_stop(injection);
		if (injection->ended)
			return -1;
	}
	if (registers_read(injection->tid, &registers) < 0)
		return -1;
	*result = registers_result(&registers);
	return 0;
}

int injection_end(struct injection *injection)
{
	if (registers_write(injection->tid, &injection->saved) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, injection->tid, sizeof(injection->mask),
		   &injection->mask) < 0)
		return -1;
	if (injection->stop_waits)
		syscall(SYS_tkill, injection->tid, SIGSTOP);
	/* Resumed, it would run on in a process that is stopped. */
	if (injection->was_stopped)
		ptrace(PTRACE_INTERRUPT, injection->tid, NULL, NULL);
	return 0;
}
