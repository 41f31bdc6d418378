/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "answers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "copy_mappings.h"
#include "processes.h"
#include "recorder.h"
#include "vdso.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define DISPATCH_ON 1u
enum { CALLS_ALLOWED, CALLS_ANSWERED };

#define PAGE UINT64_C(4096)
/* The arguments of our calls: behind the state, in its page. */
#define ANSWERS_SCRATCH (ANSWERS_STATE + PAGE / 2)
#define RESTORER 0x04000000u
#define MOST_CPU_S 60u
#define LOOK_NS 500000
/* On a shared CPU it takes longer than its own CPU time. */
#define PATIENCE 20u
#define PATIENCE_NS UINT64_C(2000000000)

/* Of the kernel. */
struct action {
	uint64_t handler, flags, restorer, mask;
};

static const int handled[] = { SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
#define HANDLED (sizeof(handled) / sizeof(handled[0]))

/* A call of the arm that has to succeed.  Returns 0, or -1 with errno. */
static int call(struct arm *arm, long number, const uint64_t arguments[6])
{
	const int64_t result = arm_call(arm, number, arguments);

	if (result >= 0)
		return 0;
	errno = result == COPY_LOST ? ESRCH : (int)-result;
	return -1;
}

static uint64_t place(uint64_t area, const void *code)
{
	return area + (uint64_t)((const char *)code - __start_answers_code);
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static int map(struct arm *arm, uint64_t *area, uint64_t bytes)
{
	const uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | (*area ? MAP_FIXED_NOREPLACE : 0u);
	const int64_t result = arm_call(arm, SYS_mmap, (const uint64_t[6]){
		*area, bytes, PROT_READ | PROT_WRITE, flags, UINT64_MAX });

	if (result < 0) {
		errno = result == COPY_LOST ? ESRCH : (int)-result;
		return -1;
	}
	if (*area && (uint64_t)result != *area) {
		errno = EEXIST;
		return -1;
	}
	*area = (uint64_t)result;
	return 0;
}

/* How far other clocks are ahead of CLOCK_MONOTONIC. */
static void compare_clocks(struct answers *state)
{
	for (int i = 0; i < (int)ANSWERS_CLOCKS; i++) {
		struct timespec time;

		if (clock_gettime(i, &time) == 0)
			state->ahead_ns[i] = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec -
					     (int64_t)clock_ns();
	}
}

static int write_all(const struct arm *arm, uint64_t area, const struct recording *recording)
{
	/* mov $SYS_getpid, %eax; syscall; jmp to the first */
	static const uint8_t loop[] = { 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7 };
	struct answers state = {
		.selector = CALLS_ALLOWED,
		.start = area, .bytes = whole_pages(ANSWERS_RECORDS + recording->bytes),
		.next = area + ANSWERS_RECORDS,
		.records_end = area + ANSWERS_RECORDS + recording->bytes,
		.now_ns = arm->copy.taken_ns,
		.mark_every = recording_calls(recording) / ANSWERS_MARKS,
	};

	if (!state.mark_every)
		state.mark_every = 1;
	compare_clocks(&state);
	if (copy_write(&arm->copy, area, __start_answers_code,
		       (size_t)(__stop_answers_code - __start_answers_code)) < 0 ||
	    copy_write(&arm->copy, area + ANSWERS_LOOP, loop, sizeof(loop)) < 0 ||
	    copy_write(&arm->copy, area + ANSWERS_STATE, &state, sizeof(state)) < 0)
		return -1;
	return copy_write(&arm->copy, area + ANSWERS_RECORDS, recording->records, recording->bytes);
}

/* The code of the copy's time functions is replaced, since they would show another time. */
static int redirect_clocks(const struct arm *arm, uint64_t area)
{
	const void *const ours[VDSO_CLOCKS] = {
		[VDSO_CLOCK_GETTIME] = (const void *)(uintptr_t)answers_clock_gettime,
		[VDSO_GETTIMEOFDAY] = (const void *)(uintptr_t)answers_gettimeofday,
		[VDSO_TIME] = (const void *)(uintptr_t)answers_time,
	};
	const struct copy_mapping *vdso = NULL;
	struct copy_mappings mappings;
	char path[32];
	int memory, rc = 0;

	if (copy_mappings_read(&mappings, arm->copy.pid) < 0)
		return -1;
	for (size_t i = 0; i < mappings.count; i++)
		if (strcmp(mappings.all[i].name, "[vdso]") == 0)
			vdso = &mappings.all[i];
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)arm->copy.pid);
	memory = vdso ? open(path, O_RDWR | O_CLOEXEC) : -1;
	for (int i = 0; memory >= 0 && rc == 0 && i < VDSO_CLOCKS; i++) {
		/* mov $address, %rax; jmp *%rax */
		uint8_t code[12] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
		const uint64_t address = place(area, ours[i]);

		if (!vdso_offset((enum vdso_clock)i))
			continue;
		memcpy(code + 2, &address, sizeof(address));
		if (pwrite(memory, code, sizeof(code),
			   (off_t)(vdso->start + vdso_offset((enum vdso_clock)i))) !=
		    (ssize_t)sizeof(code))
			rc = -1;
	}
	if (vdso && memory < 0)
		rc = -1;
	if (memory >= 0)
		close(memory);
	copy_mappings_free(&mappings);
	return rc;
}

/* We handle the signals of calls and faults, on a stack of our own; there are no others. */
static int handle_signals(struct arm *arm, uint64_t area)
{
	const uint64_t scratch = area + ANSWERS_SCRATCH;
	const struct action action = {
		.handler = place(area, (const void *)(uintptr_t)answers_at_signal),
		.flags = SA_SIGINFO | SA_ONSTACK | RESTORER,
		.restorer = place(area, (const void *)(uintptr_t)answers_return),
		.mask = UINT64_MAX,
	};
	const uint64_t stack[3] = { area + ANSWERS_STACK, 0, ANSWERS_STACK_BYTES };
	uint64_t blocked = UINT64_MAX;

	if (copy_write(&arm->copy, scratch, stack, sizeof(stack)) < 0 ||
	    call(arm, SYS_sigaltstack, (const uint64_t[6]){ scratch }) < 0) {
		if (errno == EPERM)
			errno = EBUSY;
		return -1;
	}
	if (copy_write(&arm->copy, scratch, &action, sizeof(action)) < 0)
		return -1;
	for (size_t i = 0; i < HANDLED; i++) {
		blocked &= ~(UINT64_C(1) << (handled[i] - 1));
		if (call(arm, SYS_rt_sigaction,
			 (const uint64_t[6]){ (uint64_t)handled[i], scratch, 0, 8 }) < 0)
			return -1;
	}
	if (copy_write(&arm->copy, scratch, &blocked, sizeof(blocked)) < 0)
		return -1;
	return call(arm, SYS_rt_sigprocmask, (const uint64_t[6]){ SIG_SETMASK, scratch, 0, 8 });
}

/* It is not traced when it runs: it dies with the copy (arm.c), which dies with us, and has a limit. */
static int bound(struct arm *arm, uint64_t area)
{
	const struct rlimit cpu = { MOST_CPU_S, MOST_CPU_S };
	const uint64_t scratch = area + ANSWERS_SCRATCH;

	/* With Yama, only a permitted process may look at it then. */
	arm_call(arm, SYS_prctl, (const uint64_t[6]){ PR_SET_PTRACER, UINT64_MAX });
	if (copy_write(&arm->copy, scratch, &cpu, sizeof(cpu)) < 0)
		return -1;
	return call(arm, SYS_setrlimit, (const uint64_t[6]){ RLIMIT_CPU, scratch });
}

int answers_lay(struct arm *arm, uint64_t *area, const struct recording *recording, bool loop)
{
	struct recording usable = *recording;

	if ((size_t)(__stop_answers_code - __start_answers_code) > ANSWERS_CODE_BYTES ||
	    sizeof(struct answers) > PAGE / 2) {
		errno = ENOEXEC;
		return -1;
	}
	usable.bytes = recording_private_bytes(recording, &arm->shared);
	if (map(arm, area, whole_pages(ANSWERS_RECORDS + usable.bytes)) < 0 ||
	    write_all(arm, *area, &usable) < 0 ||
	    call(arm, SYS_mprotect,
		 (const uint64_t[6]){ *area, ANSWERS_STATE, PROT_READ | PROT_EXEC }) < 0 ||
	    redirect_clocks(arm, *area) < 0 || handle_signals(arm, *area) < 0 || bound(arm, *area) < 0)
		return -1;
	if (call(arm, SYS_prctl,
		 (const uint64_t[6]){ PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, *area,
				      ANSWERS_CODE_BYTES,
				      *area + ANSWERS_STATE + offsetof(struct answers, selector) }) < 0) {
		if (errno == EINVAL)
			errno = ENOTSUP;
		return -1;
	}
	if (loop) {
		arm->registers.rip = *area + ANSWERS_LOOP;
		arm->registers.rdi = arm->registers.rsi = 0;
		arm->registers.orig_rax = UINT64_MAX;
	}
	return 0;
}

static enum arm_end await(const struct arm *arm, uint64_t area, uint64_t most_ns,
			  struct answers *state)
{
	const struct timespec soon = { 0, LOOK_NS };
	const uint64_t end_ns = clock_ns() + PATIENCE * most_ns + PATIENCE_NS;

	for (;;) {
		nanosleep(&soon, NULL);
		if (copy_read(&arm->copy, area + ANSWERS_STATE, state, sizeof(*state)) < 0)
			return ARM_GONE;
		switch ((enum answers_end)__atomic_load_n(&state->end, __ATOMIC_ACQUIRE)) {
		case ANSWERS_RUNS:
			break;
		case ANSWERS_ALL:
			return ARM_CHECKED;
		case ANSWERS_OTHER:
			return ARM_CALL;
		case ANSWERS_SIGNAL:
			return ARM_SIGNAL;
		}
		if (process_cpu_ns(arm->copy.pid) > most_ns || clock_ns() > end_ns)
			return ARM_LATE;
	}
}

enum arm_end answers_run(struct arm *arm, uint64_t area, uint64_t most_ns, struct answers *state)
{
	const uint8_t answered = CALLS_ANSWERED;
	enum arm_end end;

	if (copy_write(&arm->copy, area + ANSWERS_STATE + offsetof(struct answers, selector), &answered,
		       sizeof(answered)) < 0 ||
	    ptrace(PTRACE_SETREGS, arm->copy.pid, NULL, &arm->registers) < 0 ||
	    ptrace(PTRACE_DETACH, arm->copy.pid, NULL, NULL) < 0)
		return ARM_GONE;
	arm->untraced = true;
	end = await(arm, area, most_ns, state);
	/* All of it, if it ended while it was being read. */
	if (copy_read(&arm->copy, area + ANSWERS_STATE, state, sizeof(*state)) < 0)
		return ARM_GONE;
	return end;
}

uint8_t *answers_loop_records(uint32_t calls, struct recording *recording)
{
	struct recorded_call *all = calloc(calls, sizeof(*all));

	*recording = (struct recording){ (uint8_t *)all, calls * sizeof(*all), 0, 0 };
	for (uint32_t i = 0; all && i < calls; i++) {
		all[i].call = SYS_getpid;
		all[i].record_bytes = sizeof(*all);
	}
	return (uint8_t *)all;
}
