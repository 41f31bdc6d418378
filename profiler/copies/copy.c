/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copy.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracee.h"

int64_t copy_call(struct copy *copy, const struct user_regs_struct *registers, long call,
		  const uint64_t arguments[6])
{
	int64_t result = tracee_call(copy->pid, registers, copy->call_instruction, call, arguments,
				     TRACEE_OF_ONE_THREAD, NULL);

	if (result == TRACEE_LOST)
		return COPY_LOST;
	return ptrace(PTRACE_SETREGS, copy->pid, NULL, registers) < 0 ? COPY_LOST : result;
}

/* It works for its tracer: on the same CPUs, in the same scheduling class. */
static void run_as_caller(pid_t pid)
{
	struct sched_param none = { 0 };
	cpu_set_t cpus;

	if (sched_getscheduler(0) == SCHED_IDLE)
		sched_setscheduler(pid, SCHED_IDLE, &none);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		sched_setaffinity(pid, sizeof(cpus), &cpus);
}

int copy_take(struct copy *copy)
{
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;

	run_as_caller(copy->pid);
	if (ptrace(PTRACE_SEIZE, copy->pid, NULL, options) < 0)
		return -1;
	ptrace(PTRACE_INTERRUPT, copy->pid, NULL, NULL);
	if (tracee_wait_interrupted(copy->pid, TRACEE_OF_ONE_THREAD) < 0)
		return -1;
	if (ptrace(PTRACE_SETREGS, copy->pid, NULL, &copy->start) < 0) {
		copy_kill(copy);
		errno = ESRCH;
		return -1;
	}
	return 0;
}

void copy_kill(struct copy *copy)
{
	int status;

	if (copy->pid <= 0)
		return;
	kill(copy->pid, SIGKILL);
	while (tracee_wait(copy->pid, TRACEE_OF_ONE_THREAD, &status) == 0 && WIFSTOPPED(status))
		;
	copy->pid = 0;
}

int copy_read(const struct copy *copy, uint64_t address, void *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };
	ssize_t done = process_vm_readv(copy->pid, &here, 1, &there, 1, 0);

	if (done >= 0 && (size_t)done != bytes)
		errno = EFAULT;
	return done >= 0 && (size_t)done == bytes ? 0 : -1;
}

int copy_write(const struct copy *copy, uint64_t address, const void *buffer, size_t bytes)
{
	const struct iovec here = { (void *)(uintptr_t)buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };
	ssize_t done = process_vm_writev(copy->pid, &here, 1, &there, 1, 0);

	if (done >= 0 && (size_t)done != bytes)
		errno = EFAULT;
	return done >= 0 && (size_t)done == bytes ? 0 : -1;
}
