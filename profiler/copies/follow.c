/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "follow.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "area.h"
#include "clock.h"
#include "code_pages.h"
#include "faults.h"
#include "following.h"
#include "replay.h"
#include "step.h"
#include "stream.h"
#include "tracee.h"
#include "translate.h"
#include "vdso.h"

static int at_fault(struct following *following, int signal_number);

static int at_step(struct following *following, uint64_t address)
{
	const struct cached_block *block =
		address_map_get(&following->translator->by_address, address);
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	struct instruction instruction;
	uint8_t bytes[16];
	size_t have = code_pages_fetch(following->translator, following->copy, address, bytes);
	int rc;

	if (!block || !instruction_decode(&instruction, bytes, have, address) ||
	    stream_drain(&following->stream) < 0)
		return following_end(following, FOLLOW_FAILED);
	following->registers.rip = address;
	if (following_set_registers(following) < 0)
		return following_end(following, FOLLOW_FAILED);
	rc = step(following->copy, &instruction, &following->registers, addresses);
	/* It wrote to a page whose writes we notice: execute it again. */
	if (rc == SIGSEGV && !instruction.repeats && at_fault(following, rc) == CONTINUES)
		rc = step(following->copy, &instruction, &following->registers, addresses);
	following->followed->stepped++;
	if (rc != 0) {
		following->followed->call = rc;
		following->followed->address = address;
		return following_end(following, rc > 0 ? FOLLOW_FAULT : FOLLOW_FAILED);
	}
	stream_add(&following->stream, block, addresses);
	return following_enter(following, following->registers.rip);
}

/* A copy whose calls are replayed sees the time of these calls. */
static int at_clock(struct following *following, uint64_t address)
{
	const struct recording *recording = following->recording;
	int64_t late_ns = 0;

	if (recording && recording->records)
		late_ns = (int64_t)(clock_ns() - (recording->at_ns ? recording->at_ns :
								     following->copy->taken_ns));
	following->registers.rip = address;
	if (vdso_answer(following->translator, following->copy, &following->registers, late_ns) < 0)
		return following_end(following, FOLLOW_FAILED);
	return following_enter(following, following->registers.rip);
}

static int at_exit(struct following *following, uint32_t offset)
{
	const struct code_exit *found = address_map_get(&following->translator->exits, offset);
	struct code_exit code_exit;

	if (!found) {
		errno = EPROTO;
		return following_end(following, FOLLOW_FAILED);
	}
	code_exit = *found;
	switch (code_exit.kind) {
	case EXIT_CALL:
		return following_at_call(following, code_exit.target);
	case EXIT_STEP:
		return at_step(following, code_exit.target);
	case EXIT_CLOCK:
		return at_clock(following, code_exit.target);
	case EXIT_REFUSE:
		following->registers.rip = code_exit.target;
		following->followed->address = code_exit.target;
		return following_end(following, FOLLOW_INSTRUCTION);
	case EXIT_CONTINUES:
	case EXIT_AGAIN:
		break;
	}
	return following_chain(following, offset, code_exit.target);
}

static int at_trap(struct following *following)
{
	const uint64_t code = following->translator->area + AREA_CODE;
	const uint64_t at = following->registers.rip - 1;
	uint64_t target;

	if (at < code || at >= code + AREA_CODE_BYTES) {
		errno = EPROTO;
		return following_end(following, FOLLOW_FAILED);
	}
	if (!following_is_unknown_target(at - code))
		return at_exit(following, (uint32_t)(at - code));
	if (copy_read(following->copy, following->translator->area + AREA_TARGET, &target,
		      sizeof(target)) < 0)
		return following_end(following, FOLLOW_FAILED);
	return following_enter(following, target);
}

static int at_fault(struct following *following, int signal_number)
{
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, following->copy->pid, NULL, &info) < 0)
		return following_end(following, FOLLOW_FAILED);
	following->followed->call = signal_number;
	following->followed->address = (uint64_t)(uintptr_t)info.si_addr;
	if (info.si_code != SEGV_ACCERR)
		return following_end(following, FOLLOW_FAULT);
	switch (faults_resolve(following->translator, following->copy, &following->shared,
			       &following->registers, following->followed->address)) {
	case FAULT_CODE:
		following->followed->written_code_pages++;
		return CONTINUES;
	case FAULT_SHARED:
		following->followed->shared_pages++;
		return CONTINUES;
	case FAULT_FOREIGN:
		return following_end(following, FOLLOW_FAULT);
	default:
		return following_end(following, FOLLOW_FAILED);
	}
}

/* Let it run to its next stop, and handle that. */
static int go_on(struct following *following)
{
	int status, signal_number;
	uint64_t address;

	if (ptrace(PTRACE_CONT, following->copy->pid, NULL, NULL) < 0)
		return following_end(following, FOLLOW_EXITED);
	if (tracee_wait(following->copy->pid, following->deadline_ns, &status) < 0) {
		if (errno != ETIMEDOUT)
			return following_end(following, FOLLOW_EXITED);
		ptrace(PTRACE_INTERRUPT, following->copy->pid, NULL, NULL);
		if (tracee_wait(following->copy->pid, 0, &status) < 0)
			return following_end(following, FOLLOW_EXITED);
		return following_end(following, FOLLOW_TIME);
	}
	if (!WIFSTOPPED(status))
		return following_end(following, FOLLOW_EXITED);
	following->followed->stops++;
	if (TRACEE_EVENT(status))
		return CONTINUES;
	signal_number = WSTOPSIG(status);
	if (ptrace(PTRACE_GETREGS, following->copy->pid, NULL, &following->registers) < 0)
		return following_end(following, FOLLOW_EXITED);
	if (signal_number == SIGTRAP)
		return at_trap(following);
	if (signal_number == SIGSEGV && following_is_at_guard(following, &address))
		return following_at_guard(following, address);
	if (signal_number == SIGSEGV || signal_number == SIGBUS)
		return at_fault(following, signal_number);
	following->followed->call = signal_number;
	return following_end(following, FOLLOW_FAULT);
}

static int begin(struct following *following)
{
	struct translator *translator = following->translator;
	struct copy *copy = following->copy;
	uint64_t next;

	following->registers = copy->start;
	following->registers.orig_rax = UINT64_MAX;
	if (copy->start.gs_base) {
		following->followed->address = copy->start.rip;
		return following_end(following, FOLLOW_INSTRUCTION);
	}
	if (shared_memory_isolate(&following->shared, copy, &following->registers, true) < 0 ||
	    following_map_area(following) < 0 || code_pages_begin(translator, copy) < 0)
		return following_end(following, FOLLOW_FAILED);
	next = stream_start(&following->stream);
	if (copy_write(copy, translator->area + AREA_NEXT, &next, sizeof(next)) < 0)
		return following_end(following, FOLLOW_FAILED);
	following->registers.gs_base = translator->area;
	return following_enter(following, following->registers.rip);
}

static void run(struct following *following)
{
	int rc = begin(following);

	while (rc == CONTINUES) {
		rc = go_on(following);
		if (rc == CONTINUES && following->stream.enough)
			rc = following_end(following, FOLLOW_ENOUGH);
		if (rc == CONTINUES && following->deadline_ns && clock_ns() > following->deadline_ns)
			rc = following_end(following, FOLLOW_TIME);
	}
	if (following->followed->end == FOLLOW_ENOUGH || following->followed->end == FOLLOW_EXITED)
		return;
	/* What it did up to here counts. */
	if (following->translator->area && stream_drain(&following->stream) == 0)
		stream_settle(&following->stream, 0);
}

int follow(struct translator *translator, struct copy *copy, struct recording *recording,
	   const struct follow_limits *limits, const struct watcher *watcher,
	   struct followed *followed)
{
	struct following following = { .translator = translator, .copy = copy,
				       .recording = recording, .limits = limits,
				       .followed = followed };
	sigset_t child, before;

	memset(followed, 0, sizeof(*followed));
	translator->watcher = watcher;
	if (stream_open(&following.stream, translator, copy, watcher) < 0)
		return -1;
	if (limits->time_ns)
		following.deadline_ns = clock_ns() + limits->time_ns;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	errno = 0;
	run(&following);
	/* Killed while it was looked at. */
	if (followed->end == FOLLOW_FAILED && errno == ESRCH)
		followed->end = FOLLOW_EXITED;
	sigprocmask(SIG_SETMASK, &before, NULL);
	shared_memory_free(&following.shared);
	stream_close(&following.stream);
	return 0;
}
