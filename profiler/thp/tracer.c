/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tracer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_SYSCALL (SIGTRAP | 0x80)
/* Of linux/kcmp.h. */
#define SAME_MEMORY 1
/* For the word of a parent: seconds, on a busy machine. */
#define MOST_ROUNDS 100u

int tracer_seize(struct tracer *tracer, pid_t pid)
{
	/* Without a tracer the traced calls fail: nothing may outlive it. */
	const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP |
		PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;

	if (!tasks_add(&tracer->tasks, pid))
		return -1;
	tracer->program = pid;
	return ptrace(PTRACE_SEIZE, pid, NULL, options) < 0 ? -1 : 0;
}

static void resume(pid_t tid, int signal)
{
	/* One that was killed says so when it is waited for. */
	ptrace(PTRACE_CONT, tid, NULL, (long)signal);
}

static pid_t event_message(pid_t tid)
{
	unsigned long message;

	return ptrace(PTRACE_GETEVENTMSG, tid, NULL, &message) < 0 ? -1 : (pid_t)message;
}

static void born(struct tracer *tracer, const struct task *parent, int event)
{
	pid_t tid = event_message(parent->tid);
	struct task *child = tid > 0 ? tasks_find(&tracer->tasks, tid) : NULL;
	int early;
	long differs;

	/* Its own first stop may have come before. */
	if (!child && tid > 0)
		child = tasks_add(&tracer->tasks, tid);
	if (!child)
		return;
	early = child->waited > MOST_ROUNDS;
	differs = syscall(SYS_kcmp, parent->tid, tid, SAME_MEMORY, 0, 0);
	if (differs < 0)
		differs = event == PTRACE_EVENT_FORK;
	/* What it did with its heap since then is not known. */
	if (early && !differs)
		parent->memory->heap_end = 0;
	if (!differs)
		tasks_share(child, parent);
	else if (!early)
		tasks_copy(child, parent);
	if (child->state == TASK_NEW && !early)
		resume(tid, 0);
	child->state = TASK_RUNNING;
}

/*
 * A process stops first, and then its parent says whose it is: not if that was
 * killed in between.
 */
static void release_new(const struct tracer *tracer)
{
	for (size_t i = 0; i < tracer->tasks.count; i++) {
		struct task *task = tracer->tasks.all[i];

		if (task->state == TASK_NEW && ++task->waited > MOST_ROUNDS) {
			task->state = TASK_RUNNING;
			resume(task->tid, 0);
		}
	}
}

/* A thread that executes a program takes over the id of its process, and the others are gone. */
static void executed(struct tracer *tracer, struct task *task)
{
	pid_t before = event_message(task->tid);
	struct task *gone = before == task->tid ? NULL : tasks_find(&tracer->tasks, before);

	if (gone)
		tasks_remove(&tracer->tasks, gone);
	task->state = TASK_RUNNING;
	tasks_renew(task);
}

/* Returns 1 if the thread ended in between, with *status changed to say how. */
static int stopped(struct tracer *tracer, struct task *task, int *status)
{
	int signal = WSTOPSIG(*status);

	switch (*status >> 16) {
	case PTRACE_EVENT_SECCOMP:
		if (!stop_at_call(&tracer->stops, task))
			return 0;
		reached_look(&tracer->reached, &tracer->tasks, 0);
		break;
	case PTRACE_EVENT_STOP:
		if (signal == SIGTRAP)
			resume(task->tid, 0);
		else
			ptrace(PTRACE_LISTEN, task->tid, NULL, NULL);
		return 0;
	case PTRACE_EVENT_EXEC:
		executed(tracer, task);
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		born(tracer, task, *status >> 16);
		break;
	case PTRACE_EVENT_EXIT:
		if (tasks_leave(task))
			reached_look(&tracer->reached, &tracer->tasks, 1);
		break;
	default:
		if (signal != AT_SYSCALL) {
			resume(task->tid, signal);
			return 0;
		}
		if (task->state == TASK_IN_CALL)
			return stop_after_call(&tracer->stops, task, status);
	}
	resume(task->tid, 0);
	return 0;
}

/* A process that is not known yet. */
static int wait_for_parent(struct tracer *tracer, pid_t tid)
{
	struct task *task = tasks_add(&tracer->tasks, tid);

	if (!task)
		return -1;
	task->state = TASK_NEW;
	return 0;
}

static int handle(struct tracer *tracer, pid_t tid, int *status)
{
	struct task *task = tasks_find(&tracer->tasks, tid);

	while (WIFSTOPPED(*status)) {
		if (!task)
			return wait_for_parent(tracer, tid);
		if (!stopped(tracer, task, status))
			return 0;
	}
	if (task)
		tasks_remove(&tracer->tasks, task);
	return 0;
}

int tracer_run(struct tracer *tracer, int *status)
{
	for (;;) {
		pid_t tid = waitpid(-1, status, __WALL);

		if (tid < 0 && errno == ECHILD)
			return 1;
		if (tid < 0 && errno != EINTR)
			return -1;
		if (*tracer->look_due) {
			*tracer->look_due = 0;
			release_new(tracer);
			reached_look(&tracer->reached, &tracer->tasks, 0);
		}
		if (tid > 0 && handle(tracer, tid, status) < 0)
			return -1;
		if (tid > 0 && tid == tracer->program && !WIFSTOPPED(*status)) {
			tracer->program = 0;
			return 0;
		}
	}
}
