/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "tracee.h"

/* Of all outputs of one call, and of a recording. */
#define MOST_CALL_BYTES (4u << 20)
#define MOST_BYTES (64u << 20)
#define CHUNK_BYTES 65536u
#define MOST_ERROR 4095
/* Stops after which we look again which CPU it is on. */
#define STOPS_NEAR 16u
/* A call this long was a wait: those that return at once take up to 60 us here while recorded. */
#define WAIT_NS 200000u
/* Of /proc/PID/stat, as proc(5) numbers its fields. */
#define CPU_FIELD 39
#define REMEMBERED 64u

/* What was known of a thread when its last recording ended. */
static struct last_recording {
	pid_t thread;
	uint64_t at_ns, busy_ns;
} recordings[REMEMBERED];

/* Calls that make a process or thread, end one, or change where it continues. */
static bool starts_or_ends(long call)
{
	switch (call) {
	case SYS_clone:
	case 435: /* clone3 */
	case SYS_fork:
	case SYS_vfork:
	case SYS_execve:
	case 322: /* execveat */
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigreturn:
	case SYS_ptrace:
		return true;
	default:
		return false;
	}
}

static int append(struct recorder *recorder, const void *buffer, size_t bytes)
{
	if (write(recorder->file, buffer, bytes) != (ssize_t)bytes)
		return -1;
	recorder->bytes += bytes;
	return 0;
}

static int append_memory(struct recorder *recorder, const struct recorded_output *output)
{
	static char buffer[CHUNK_BYTES];
	static const char zeros[8];

	for (uint64_t done = 0; done < output->bytes;) {
		size_t bytes = output->bytes - done < sizeof(buffer) ?
			(size_t)(output->bytes - done) : sizeof(buffer);
		const struct iovec here = { buffer, bytes };
		const struct iovec there = { (void *)(uintptr_t)(output->address + done), bytes };

		if (process_vm_readv(recorder->thread, &here, 1, &there, 1, 0) != (ssize_t)bytes ||
		    append(recorder, buffer, bytes) < 0)
			return -1;
		done += bytes;
	}
	return append(recorder, zeros, (size_t)(-output->bytes & 7));
}

static int append_call(struct recorder *recorder, struct recorded_call *call)
{
	struct recorded_output outputs[RECORDED_MOST_OUTPUTS];
	uint64_t bytes = sizeof(*call);
	int count = recorded_outputs(recorder->thread, call, outputs);

	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++) {
		if (outputs[i].bytes > MOST_CALL_BYTES)
			return -1;
		bytes += sizeof(*outputs) + ((outputs[i].bytes + 7) & ~UINT64_C(7));
	}
	if (bytes > MOST_CALL_BYTES || recorder->bytes + bytes > MOST_BYTES)
		return -1;
	call->output_count = (uint32_t)count;
	call->record_bytes = (uint32_t)bytes;
	if (append(recorder, call, sizeof(*call)) < 0 ||
	    append(recorder, outputs, (size_t)count * sizeof(*outputs)) < 0)
		return -1;
	for (int i = 0; i < count; i++)
		if (append_memory(recorder, &outputs[i]) < 0)
			return -1;
	return 0;
}

/* It is at the exit of a call.  Returns 0 if that is recorded. */
static int returned(struct recorder *recorder)
{
	struct user_regs_struct registers;
	struct recorded_call call;
	uint64_t before = recorder->bytes;

	if (ptrace(PTRACE_GETREGS, recorder->thread, NULL, &registers) < 0)
		return -1;
	call = (struct recorded_call){
		.call = (int64_t)registers.orig_rax,
		.arguments = { registers.rdi, registers.rsi, registers.rdx, registers.r10,
			       registers.r8, registers.r9 },
		.result = (int64_t)registers.rax, .at_ns = clock_ns(),
	};
	/* To be restarted: a signal comes. */
	if (call.result <= -512 && call.result >= -516)
		return -1;
	if (append_call(recorder, &call) == 0) {
		recorder->calls++;
		return 0;
	}
	/* Nothing of it is left. */
	if (ftruncate(recorder->file, (off_t)before) == 0)
		lseek(recorder->file, (off_t)before, SEEK_SET);
	recorder->bytes = before;
	return -1;
}

static bool is_entry(pid_t thread)
{
	struct __ptrace_syscall_info info = { .op = 0 };

	return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) > 0 &&
		info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* Whether the recording continues after this stop. */
static bool look(struct recorder *recorder, bool *in_call)
{
	struct user_regs_struct registers;

	if (is_entry(recorder->thread)) {
		*in_call = true;
		return ptrace(PTRACE_GETREGS, recorder->thread, NULL, &registers) == 0 &&
			!starts_or_ends((long)registers.orig_rax);
	}
	/* The exit of a call that began before the recording. */
	if (!*in_call)
		return true;
	*in_call = false;
	return returned(recorder) == 0 && recorder->calls < recorder->most_calls;
}

/* A file of /proc/THREAD.  Returns whether there is anything in it. */
static bool read_facts(pid_t thread, const char *name, char *text, size_t size)
{
	char path[32];
	ssize_t length;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)thread, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	length = file < 0 ? -1 : read(file, text, size - 1);
	if (file >= 0)
		close(file);
	text[length > 0 ? length : 0] = '\0';
	return length > 0;
}

/* The CPU that a thread is on; -1 if unknown. */
static int cpu_of(pid_t thread)
{
	char text[1024];
	const char *field = read_facts(thread, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;

	/* The field behind the name is the third. */
	for (int i = 2; field && i < CPU_FIELD; i++)
		field = strchr(field + 1, ' ');
	return field ? atoi(field + 1) : -1;
}

/* Time that a thread has run, or waited for a CPU; 0 if unknown. */
static uint64_t busy_ns(pid_t thread)
{
	uint64_t ran_ns, queued_ns;
	char text[128];

	return read_facts(thread, "schedstat", text, sizeof(text)) &&
	       sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &queued_ns) == 2 ? ran_ns + queued_ns : 0;
}

/*
 * Whether it has waited for two thirds of the time since it was last recorded.  One that is
 * saturated by clients that wait for its answers cannot fall behind; if it is recorded for the first
 * time, that is not known.
 */
static bool waits_at_times(pid_t thread)
{
	const struct last_recording *last = &recordings[(unsigned)thread % REMEMBERED];
	const uint64_t now = clock_ns();

	return last->thread != thread || now - last->at_ns > 3 * (busy_ns(thread) - last->busy_ns);
}

static void remember(pid_t thread)
{
	recordings[(unsigned)thread % REMEMBERED] =
		(struct last_recording){ thread, clock_ns(), busy_ns(thread) };
}

/*
 * Each call stops the thread twice.  Resuming it is fastest from its own CPU: one context switch.
 * It may have migrated.
 */
static void stay_near(pid_t thread, const cpu_set_t *allowed, int *near)
{
	const int cpu = cpu_of(thread);
	cpu_set_t one;

	if (cpu == *near || cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET((size_t)cpu, allowed))
		return;
	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) == 0)
		*near = cpu;
}

static enum recorder_end run(struct recorder *recorder, const cpu_set_t *allowed, int *signal)
{
	const uint64_t behind_ns = recorder->behind_ns && waits_at_times(recorder->thread) ?
					   recorder->behind_ns : UINT64_MAX;
	uint64_t resumed_ns = clock_ns(), waited_ns = resumed_ns;
	const uint64_t deadline_ns = resumed_ns + recorder->most_ms * UINT64_C(1000000);
	bool in_call = false;
	int status, near = -1;

	*signal = 0;
	for (uint32_t stops = 0;; stops++) {
		uint64_t now;

		if (stops % STOPS_NEAR == 0)
			stay_near(recorder->thread, allowed, &near);
		if (tracee_wait(recorder->thread, deadline_ns, &status) < 0)
			return errno == ETIMEDOUT ? RECORDER_RUNS : RECORDER_GONE;
		if (!WIFSTOPPED(status))
			return RECORDER_GONE;
		if (WSTOPSIG(status) != TRACEE_AT_CALL) {
			if (!TRACEE_EVENT(status))
				*signal = WSTOPSIG(status);
			return RECORDER_STOPPED;
		}
		now = clock_ns();
		if (in_call && now - resumed_ns >= WAIT_NS)
			waited_ns = now;
		recorder->behind = now - waited_ns >= behind_ns;
		if (!look(recorder, &in_call) || recorder->behind || now >= deadline_ns)
			return RECORDER_STOPPED;
		resumed_ns = clock_ns();
		if (ptrace(PTRACE_SYSCALL, recorder->thread, NULL, NULL) < 0)
			return RECORDER_GONE;
	}
}

enum recorder_end recorder_run(struct recorder *recorder, int *signal)
{
	cpu_set_t allowed;
	enum recorder_end end;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	end = run(recorder, &allowed, signal);
	remember(recorder->thread);
	sched_setaffinity(0, sizeof(allowed), &allowed);
	return end;
}
