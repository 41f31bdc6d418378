/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "whole.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <asm/prctl.h>

#include "area.h"
#include "copy_mappings.h"
#include "following.h"
#include "stopped_code.h"
#include "tracee.h"
#include "watcher.h"

#define BIT(signal) (UINT64_C(1) << ((signal) - 1))
/* Translated code stops by these: where they are blocked, the kernel would take their handlers away. */
#define OURS (BIT(SIGSEGV) | BIT(SIGTRAP))
#define SYNCHRONOUS (OURS | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL))

int whole_seize(pid_t pid)
{
	const long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

	return ptrace(PTRACE_SEIZE, pid, NULL, options) < 0 ? -1 : 0;
}

/* A `syscall` instruction near its first one: of the dynamic linker, or its own. */
static uint64_t find_call(struct copy *copy, const struct copy_mapping *mapping)
{
	uint8_t code[4096];

	for (uint64_t at = mapping->start; at < mapping->end; at += sizeof(code)) {
		if (copy_read(copy, at, code, sizeof(code)) < 0)
			return 0;
		for (unsigned i = 0; i + 1 < sizeof(code); i++)
			if (code[i] == 0x0f && code[i + 1] == 0x05)
				return at + i;
	}
	return 0;
}

static int fill(struct copy *copy, pid_t pid)
{
	const struct copy_mapping *mapping;
	struct copy_mappings mappings;

	*copy = (struct copy){ .pid = pid, .inner_pid = pid, .program = pid, .thread = pid };
	if (ptrace(PTRACE_GETREGS, pid, NULL, &copy->start) < 0 ||
	    copy_mappings_read(&mappings, pid) < 0)
		return -1;
	mapping = copy_mappings_find(&mappings, copy->start.rip);
	if (mapping)
		copy->call_instruction = find_call(copy, mapping);
	for (size_t i = 0; !copy->call_instruction && i < mappings.count; i++)
		if (mappings.all[i].executable)
			copy->call_instruction = find_call(copy, &mappings.all[i]);
	copy_mappings_free(&mappings);
	errno = ENOENT;
	return copy->call_instruction ? 0 : -1;
}

int whole_await(pid_t pid, struct copy *copy)
{
	bool executed = false;
	long signal;
	int status;

	do {
		if (tracee_wait(pid, TRACEE_OF_ONE_THREAD, &status) < 0 || !WIFSTOPPED(status)) {
			errno = ESRCH;
			return -1;
		}
		executed = executed || TRACEE_EVENT(status) == PTRACE_EVENT_EXEC;
		if (executed && WSTOPSIG(status) == TRACEE_AT_CALL)
			break;
		signal = TRACEE_EVENT(status) || WSTOPSIG(status) == TRACEE_AT_CALL ?
				 0 : WSTOPSIG(status);
		/* From its event on, to the end of its execve(). */
	} while (ptrace(executed ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL, signal) == 0);
	return fill(copy, pid);
}

static int lost(struct following *following)
{
	return following_end(following, FOLLOW_EXITED);
}

static int set_mask(const struct following *following, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, following->copy->pid, (void *)sizeof(mask), &mask) < 0 ?
		       -1 : 0;
}

static int get_mask(const struct following *following, uint64_t *mask)
{
	return ptrace(PTRACE_GETSIGMASK, following->copy->pid, (void *)sizeof(*mask), mask) < 0 ?
		       -1 : 0;
}

/* The program executed natively: its registers are read again, for following_enter(). */
static int resume(struct following *following)
{
	struct user_regs_struct *registers = &following->registers;
	uint64_t mask;

	if (ptrace(PTRACE_GETREGS, following->copy->pid, NULL, registers) < 0 ||
	    get_mask(following, &mask) < 0 ||
	    (mask & OURS && set_mask(following, mask & ~OURS) < 0))
		return lost(following);
	if (registers->fs_base != following->stream.fs_base) {
		/* What is in the buffer is relative to the old one. */
		if (stream_drain(&following->stream) < 0)
			return following_end(following, FOLLOW_FAILED);
		following->stream.fs_base = registers->fs_base;
	}
	registers->gs_base = following->translator->area;
	return CONTINUES;
}

/* The program's registers, as they are natively. */
static int give_registers(struct following *following)
{
	following->registers.gs_base = 0;
	return following_set_registers(following);
}

bool whole_is_sent(const struct following *following)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, following->copy->pid, NULL, &info) == 0 &&
	       info.si_code <= 0;
}

/* In a call: does the kernel make it again, or not, by what the signal that interrupted it does? */
static bool is_interrupted(const struct following *following)
{
	struct user_regs_struct now;

	return ptrace(PTRACE_GETREGS, following->copy->pid, NULL, &now) == 0 &&
	       (int64_t)now.orig_rax >= 0 && now.orig_rax != SYS_rt_sigreturn &&
	       (int64_t)now.rax <= -512 && (int64_t)now.rax >= -516;
}

/*
 * Execute one instruction natively, or enter the handler of this signal if not 0.  What comes while
 * it does so reaches the program, too.
 */
static int step_natively(struct following *following, int signal)
{
	const pid_t pid = following->copy->pid;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (long)signal) < 0 ||
		    stopped_code_await(pid, &status) < 0)
			return lost(following);
		signal = 0;
		if (TRACEE_EVENT(status))
			continue;
		if (WSTOPSIG(status) != SIGTRAP || whole_is_sent(following))
			signal = WSTOPSIG(status);
		else if (!is_interrupted(following))
			return resume(following);
	}
}

/*
 * Make the call natively.  (Its step would end by SIGTRAP, which the call may have blocked: then the
 * kernel takes its handler away.)
 */
static int call_natively(struct following *following)
{
	const pid_t pid = following->copy->pid;
	bool made = false;
	int status;

	if (give_registers(following) < 0)
		return lost(following);
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || stopped_code_await(pid, &status) < 0)
			return lost(following);
		if (TRACEE_EVENT(status))
			continue;
		if (WSTOPSIG(status) != TRACEE_AT_CALL)
			return step_natively(following, WSTOPSIG(status));
		if (made)
			return is_interrupted(following) ? step_natively(following, 0) :
							   resume(following);
		made = true;
	}
}

/* Does the call start what cannot be followed, or end what can? */
static bool must_be_native(const struct user_regs_struct *registers)
{
	switch (registers->rax) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_execve:
	case SYS_execveat:
	case SYS_fork:
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
	case SYS_seccomp:
	case SYS_ptrace:
		return true;
	case SYS_prctl:
		return registers->rdi == PR_SET_SECCOMP;
	case SYS_arch_prctl:
		return registers->rdi == ARCH_SET_GS;
	default:
		return false;
	}
}

int whole_call(struct following *following)
{
	const struct watcher *watcher = following->translator->watcher;
	struct user_regs_struct *registers = &following->registers;
	const struct user_regs_struct before = *registers;
	const bool maps = following_changes_mappings(before.rax);

	if (must_be_native(registers))
		return following_end(following, FOLLOW_CALL);
	if (call_natively(following) == ENDED)
		return ENDED;
	if ((maps || before.rax == SYS_brk) && watcher->mapped)
		watcher->mapped(watcher->context);
	if (maps && (int64_t)registers->rax >= 0 &&
	    following_mapped_anew(following, before.rax == SYS_mmap ? registers->rax : before.rdi,
				  before.rsi) < 0)
		return following_end(following, FOLLOW_FAILED);
	return following_enter(following, registers->rip);
}

/* The same, with the signal of this stop kept for the last. */
static int step_out_with(struct following *following)
{
	const pid_t pid = following->copy->pid;
	siginfo_t info;
	uint64_t mask;
	int rc;

	if (ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) < 0 || get_mask(following, &mask) < 0 ||
	    set_mask(following, ~SYNCHRONOUS) < 0)
		return lost(following);
	rc = stopped_code_leave(following);
	if (rc == CONTINUES && (set_mask(following, mask) < 0 ||
				ptrace(PTRACE_SETSIGINFO, pid, NULL, &info) < 0))
		return lost(following);
	return rc;
}

/* Of the instruction that it is at: it happens again if that is executed. */
static bool is_fault(const struct following *following, int signal)
{
	siginfo_t info;

	return SYNCHRONOUS & BIT(signal) &&
	       ptrace(PTRACE_GETSIGINFO, following->copy->pid, NULL, &info) == 0 &&
	       info.si_code > 0;
}

int whole_signal(struct following *following, int signal)
{
	const bool fault = is_fault(following, signal);

	/* A step that was ended by a signal left them as they are. */
	if (ptrace(PTRACE_GETREGS, following->copy->pid, NULL, &following->registers) < 0)
		return lost(following);
	if (!stopped_code_registers(following, fault) && step_out_with(following) == ENDED)
		return ENDED;
	if (give_registers(following) < 0)
		return lost(following);
	if (step_natively(following, fault ? 0 : signal) == ENDED)
		return ENDED;
	return following_enter(following, following->registers.rip);
}

int whole_step(struct following *following)
{
	uint8_t first = 0;

	/* INT1, INT3, INT n: their SIGTRAP could not be distinguished from the one of a step. */
	if (copy_read(following->copy, following->registers.rip, &first, 1) < 0 || first == 0xf1 ||
	    (first & 0xfe) == 0xcc)
		return following_end(following, FOLLOW_INSTRUCTION);
	if (give_registers(following) < 0)
		return lost(following);
	if (step_natively(following, 0) == ENDED)
		return ENDED;
	following->followed->stepped++;
	return following_enter(following, following->registers.rip);
}

void whole_release(struct following *following)
{
	const pid_t pid = following->copy->pid;
	const uint64_t area[6] = { following->translator->area, AREA_BYTES };
	uint64_t mask;

	if (!stopped_code_registers(following, false) && stopped_code_leave(following) == ENDED)
		return;
	following->registers.gs_base = 0;
	if (area[0] && get_mask(following, &mask) == 0 && set_mask(following, ~UINT64_C(0)) == 0) {
		following_call(following, SYS_munmap, area);
		set_mask(following, mask);
	}
	following_set_registers(following);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

void whole_let_go(pid_t pid)
{
	int status;
	long signal;

	if (ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0)
		return;
	/* It runs, or was killed; or it was released already, and there is nothing to wait for. */
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	while (tracee_wait(pid, TRACEE_OF_ONE_THREAD, &status) == 0 && WIFSTOPPED(status)) {
		signal = TRACEE_EVENT(status) || WSTOPSIG(status) == TRACEE_AT_CALL ?
				 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_DETACH, pid, NULL, signal) == 0)
			return;
	}
}
