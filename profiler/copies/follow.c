/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "follow.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <asm/prctl.h>
#include <time.h>

#include "area.h"
#include "calls.h"
#include "faults.h"
#include "replay.h"
#include "step.h"
#include "stream.h"
#include "tracee.h"
#include "translate.h"
#include "vdso.h"

#define CALL_INSTRUCTION_BYTES 2u

extern const uint8_t lookup_begin[], lookup_unknown[];

struct following {
	struct translator *translator;
	struct copy *copy;
	struct recording *recording;	/* NULL: nothing was recorded */
	const struct follow_limits *limits;
	struct followed *followed;
	struct stream stream;
	struct user_regs_struct registers;
	uint64_t deadline_ns;	/* 0: none */
};

/* What comes of a stop: the copy continues, or its window has ended. */
enum { CONTINUES, ENDED };

static int end(struct following *following, enum follow_end how)
{
	following->followed->end = how;
	return ENDED;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int64_t call(struct following *following, long number, const uint64_t arguments[6])
{
	int64_t result = copy_call(following->copy, &following->registers, number, arguments);

	if (result == COPY_LOST)
		errno = ESRCH;
	else if (result < 0)
		errno = (int)-result;
	return result;
}

/* The area is at the same place in each copy, unless something of the program's is there now. */
static int map_area(struct following *following)
{
	struct translator *translator = following->translator;
	uint64_t arguments[6] = {
		translator->area, AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX, 0,
	};
	uint64_t guard[6] = { 0, AREA_GUARD_BYTES, PROT_NONE };
	int64_t area;

	if (translator->area)
		arguments[3] |= MAP_FIXED_NOREPLACE;
	area = call(following, SYS_mmap, arguments);
	if (area < 0 && area != COPY_LOST && translator->area) {
		arguments[0] = 0;
		arguments[3] &= ~(uint64_t)MAP_FIXED_NOREPLACE;
		area = call(following, SYS_mmap, arguments);
	}
	if (area < 0)
		return -1;
	/* Code refers to the area by GS, and to itself by distances: it may be anywhere. */
	translator->area = (uint64_t)area;
	guard[0] = translator->area + AREA_GUARD;
	return call(following, SYS_mprotect, guard) < 0 ? -1 : 0;
}

static int set_registers(struct following *following)
{
	following->registers.orig_rax = UINT64_MAX;
	return ptrace(PTRACE_SETREGS, following->copy->pid, NULL, &following->registers) < 0 ? -1 : 0;
}

/* Forget all code: its cache is full. */
static int make_space(struct following *following, uint64_t next)
{
	static const uint8_t zeros[AREA_CODE - AREA_RECENT];
	struct translator *translator = following->translator;

	if (stream_drain(&following->stream) < 0)
		return -1;
	stream_settle(&following->stream, next);
	code_cache_clear(translator);
	return copy_write(following->copy, translator->area + AREA_RECENT, zeros, sizeof(zeros));
}

/* Translate what is at the address.  NULL with ->followed->end set. */
static struct cached_block *block_at(struct following *following, uint64_t address)
{
	struct translator *translator = following->translator;
	const size_t before = translator->count;
	struct cached_block *block;

	if (code_cache_full(translator) && make_space(following, address) < 0) {
		end(following, FOLLOW_FAILED);
		return NULL;
	}
	block = translate_code(translator, following->copy, address);
	following->followed->translated += translator->count - before;
	if (!block) {
		following->followed->address = address;
		end(following, errno == EFAULT ? FOLLOW_INSTRUCTION : FOLLOW_FAILED);
	}
	return block;
}

/* Go on with the program's code at this address. */
static int enter(struct following *following, uint64_t address)
{
	struct translator *translator = following->translator;
	const struct cached_block *block = block_at(following, address);

	if (!block)
		return ENDED;
	if (code_cache_send(translator, following->copy) < 0 ||
	    faults_protect(translator, following->copy, &following->registers) < 0)
		return end(following, FOLLOW_FAILED);
	following->registers.rip = translator->area + AREA_CODE + block->offset;
	return set_registers(following) < 0 ? end(following, FOLLOW_FAILED) : CONTINUES;
}

/* Mappings changed there: what was translated of it, or protected, is not so any more. */
static int mapped_anew(struct following *following, uint64_t start, uint64_t bytes)
{
	struct translator *translator = following->translator;
	bool any = false;

	for (size_t i = 0; i < translator->pages.capacity; i++) {
		const struct address_entry *entry = &translator->pages.entries[i];
		const uint64_t page = entry->address << CODE_PAGE_SHIFT;

		if (!entry->value || page + CODE_PAGE_BYTES <= start || page >= start + bytes)
			continue;
		any = true;
		if (code_cache_written(translator, entry->value, entry->address) < 0)
			return -1;
	}
	if (!any && !copy_mappings_find(&translator->mappings, start))
		return 0;
	copy_mappings_free(&translator->mappings);
	return copy_mappings_read(&translator->mappings, following->copy->pid);
}

static bool changes_mappings(uint64_t number)
{
	return number == SYS_mmap || number == SYS_munmap || number == SYS_mprotect ||
	       number == SYS_mremap;
}

/* The copy makes the call for real. */
static int make_call(struct following *following)
{
	struct user_regs_struct *r = &following->registers;
	const uint64_t arguments[6] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };
	const uint64_t number = r->rax;
	const int64_t result = call(following, (long)number, arguments);

	if (result == COPY_LOST)
		return end(following, FOLLOW_EXITED);
	r->rax = (uint64_t)result;
	if (result >= 0 && changes_mappings(number) &&
	    mapped_anew(following, number == SYS_mmap ? (uint64_t)result : arguments[0],
			arguments[1]) < 0)
		return end(following, FOLLOW_FAILED);
	return CONTINUES;
}

/* Of a program that is followed from its start: what the copy of one never does. */
static int make_any_call(struct following *following)
{
	struct user_regs_struct *r = &following->registers;

	switch (r->rax) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_execve:
	case SYS_execveat:
	case SYS_fork:
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
	case SYS_rt_sigreturn:
		return end(following, FOLLOW_CALL);
	case SYS_arch_prctl:
		if (r->rdi != ARCH_SET_FS)
			return make_call(following);
		if (stream_drain(&following->stream) < 0)
			return end(following, FOLLOW_FAILED);
		following->stream.fs_base = r->fs_base = r->rsi;
		r->rax = 0;
		return CONTINUES;
	default:
		return make_call(following);
	}
}

/* Returns whether the call is answered, or made, as it was recorded; rc is what came of that. */
static bool replayed(struct following *following, int *rc)
{
	const struct user_regs_struct before = following->registers;
	struct user_regs_struct *r = &following->registers;
	int64_t result = 0;

	if (!following->recording)
		return false;
	switch (replay(following->recording, following->copy, r, following->translator->area,
		       AREA_BYTES, &result)) {
	case REPLAY_ANSWERED:
		*rc = CONTINUES;
		break;
	case REPLAY_REAL:
		*rc = make_call(following);
		if (*rc == CONTINUES && (int64_t)r->rax != result)
			*rc = end(following, FOLLOW_CALL);
		/* Only its result is the program's: its arguments may have been changed. */
		result = (int64_t)r->rax;
		*r = before;
		r->rax = (unsigned long long)result;
		break;
	case REPLAY_NOTHING:
		return false;
	default:
		*rc = end(following, FOLLOW_FAILED);
		break;
	}
	following->followed->replayed++;
	return true;
}

static int at_call(struct following *following, uint64_t address)
{
	struct user_regs_struct *r = &following->registers;
	int rc = CONTINUES;

	following->followed->calls++;
	r->rip = address + CALL_INSTRUCTION_BYTES;
	following->followed->call = (long)r->rax;
	following->followed->address = address;
	if (following->limits->whole) {
		rc = make_any_call(following);
	} else if (!replayed(following, &rc)) {
		switch (calls_decide(following->copy, r, following->translator->area, AREA_BYTES)) {
		case CALL_ENDS:
			rc = end(following, FOLLOW_CALL);
			break;
		case CALL_REAL:
			rc = make_call(following);
			break;
		case CALL_ANSWERED:
			break;
		}
	}
	if (rc == ENDED) {
		r->rip = address;
		return rc;
	}
	/* As the instruction leaves them. */
	r->rcx = r->rip;
	r->r11 = r->eflags;
	return enter(following, r->rip);
}

static int at_step(struct following *following, uint64_t address)
{
	const struct cached_block *block =
		address_map_get(&following->translator->by_address, address);
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	struct instruction instruction;
	uint8_t bytes[16];
	size_t have = code_cache_fetch(following->translator, following->copy, address, bytes);
	int rc;

	if (!block || !instruction_decode(&instruction, bytes, have, address) ||
	    stream_drain(&following->stream) < 0)
		return end(following, FOLLOW_FAILED);
	following->registers.rip = address;
	if (set_registers(following) < 0)
		return end(following, FOLLOW_FAILED);
	rc = step(following->copy, &instruction, &following->registers, addresses);
	following->followed->stepped++;
	if (rc != 0) {
		following->followed->call = rc;
		following->followed->address = address;
		return end(following, rc > 0 ? FOLLOW_FAULT : FOLLOW_FAILED);
	}
	stream_add(&following->stream, block, addresses);
	return enter(following, following->registers.rip);
}

/* A copy whose calls are replayed lives in the time of these. */
static int at_clock(struct following *following, uint64_t address)
{
	const struct recording *recording = following->recording;
	int64_t late_ns = 0;

	if (recording && recording->records)
		late_ns = (int64_t)(now_ns() - (recording->at_ns ? recording->at_ns :
								     following->copy->taken_ns));
	following->registers.rip = address;
	if (vdso_answer(following->translator, following->copy, &following->registers, late_ns) < 0)
		return end(following, FOLLOW_FAILED);
	return enter(following, following->registers.rip);
}

static int at_exit(struct following *following, uint32_t offset)
{
	const struct code_exit *found = address_map_get(&following->translator->exits, offset);
	struct code_exit code_exit;
	struct cached_block *block;

	if (!found) {
		errno = EPROTO;
		return end(following, FOLLOW_FAILED);
	}
	code_exit = *found;
	switch (code_exit.kind) {
	case EXIT_CALL:
		return at_call(following, code_exit.target);
	case EXIT_STEP:
		return at_step(following, code_exit.target);
	case EXIT_CLOCK:
		return at_clock(following, code_exit.target);
	case EXIT_REFUSE:
		following->registers.rip = code_exit.target;
		following->followed->address = code_exit.target;
		return end(following, FOLLOW_INSTRUCTION);
	case EXIT_CONTINUES:
	case EXIT_AGAIN:
		break;
	}
	block = block_at(following, code_exit.target);
	if (!block)
		return ENDED;
	if (code_cache_chain(following->translator, offset, block) < 0)
		return end(following, FOLLOW_FAILED);
	return enter(following, code_exit.target);
}

static int at_trap(struct following *following)
{
	const uint64_t code = following->translator->area + AREA_CODE;
	const uint64_t at = following->registers.rip - 1;
	uint64_t target;

	if (at < code || at >= code + AREA_CODE_BYTES) {
		errno = EPROTO;
		return end(following, FOLLOW_FAILED);
	}
	if (at - code != (uint64_t)(lookup_unknown - lookup_begin))
		return at_exit(following, (uint32_t)(at - code));
	if (copy_read(following->copy, following->translator->area + AREA_TARGET, &target,
		      sizeof(target)) < 0)
		return end(following, FOLLOW_FAILED);
	return enter(following, target);
}

static unsigned long long *general(struct user_regs_struct *r, unsigned number)
{
	unsigned long long *const registers[16] = {
		&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp, &r->rsi, &r->rdi,
		&r->r8, &r->r9, &r->r10, &r->r11, &r->r12, &r->r13, &r->r14, &r->r15,
	};

	return registers[number & 15u];
}

static int at_guard(struct following *following, uint64_t address)
{
	const uint64_t code = following->translator->area + AREA_CODE;
	const struct cached_block *block =
		code_cache_at(following->translator, (uint32_t)(following->registers.rip - code));

	if (!block || stream_turn(&following->stream, address,
				  general(&following->registers, block->first)) < 0)
		return end(following, FOLLOW_FAILED);
	return set_registers(following) < 0 ? end(following, FOLLOW_FAILED) : CONTINUES;
}

static int at_fault(struct following *following, int signal_number)
{
	const uint64_t guard = following->translator->area + AREA_GUARD;
	uint64_t address;
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, following->copy->pid, NULL, &info) < 0)
		return end(following, FOLLOW_FAILED);
	address = (uint64_t)(uintptr_t)info.si_addr;
	if (address >= guard && address < guard + AREA_GUARD_BYTES)
		return at_guard(following, address);
	following->followed->call = signal_number;
	following->followed->address = address;
	if (info.si_code != SEGV_ACCERR)
		return end(following, FOLLOW_FAULT);
	switch (faults_resolve(following->translator, following->copy, &following->registers,
			       address)) {
	case FAULT_CODE:
		following->followed->written_code_pages++;
		return CONTINUES;
	case FAULT_SHARED:
		following->followed->shared_pages++;
		return CONTINUES;
	case FAULT_FOREIGN:
		return end(following, FOLLOW_FAULT);
	default:
		return end(following, FOLLOW_FAILED);
	}
}

/* Let it run to its next stop, and see to that. */
static int go_on(struct following *following)
{
	int status, signal_number;

	if (ptrace(PTRACE_CONT, following->copy->pid, NULL, NULL) < 0)
		return end(following, FOLLOW_EXITED);
	if (tracee_wait(following->copy->pid, following->deadline_ns, &status) < 0) {
		if (errno != ETIMEDOUT)
			return end(following, FOLLOW_EXITED);
		ptrace(PTRACE_INTERRUPT, following->copy->pid, NULL, NULL);
		if (tracee_wait(following->copy->pid, 0, &status) < 0)
			return end(following, FOLLOW_EXITED);
		return end(following, FOLLOW_TIME);
	}
	if (!WIFSTOPPED(status))
		return end(following, FOLLOW_EXITED);
	following->followed->stops++;
	if (TRACEE_EVENT(status))
		return CONTINUES;
	signal_number = WSTOPSIG(status);
	if (ptrace(PTRACE_GETREGS, following->copy->pid, NULL, &following->registers) < 0)
		return end(following, FOLLOW_EXITED);
	if (signal_number == SIGTRAP)
		return at_trap(following);
	if (signal_number == SIGSEGV || signal_number == SIGBUS)
		return at_fault(following, signal_number);
	following->followed->call = signal_number;
	return end(following, FOLLOW_FAULT);
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
		return end(following, FOLLOW_INSTRUCTION);
	}
	if (map_area(following) < 0 || code_cache_begin(translator, copy) < 0)
		return end(following, FOLLOW_FAILED);
	if (!following->limits->whole &&
	    faults_begin(translator, copy, &following->registers) < 0)
		return end(following, FOLLOW_FAILED);
	next = stream_start(translator);
	if (copy_write(copy, translator->area + AREA_NEXT, &next, sizeof(next)) < 0)
		return end(following, FOLLOW_FAILED);
	following->registers.gs_base = translator->area;
	return enter(following, following->registers.rip);
}

static void run(struct following *following)
{
	int rc = begin(following);

	while (rc == CONTINUES) {
		rc = go_on(following);
		if (rc == CONTINUES && following->stream.enough)
			rc = end(following, FOLLOW_ENOUGH);
		if (rc == CONTINUES && following->deadline_ns && now_ns() > following->deadline_ns)
			rc = end(following, FOLLOW_TIME);
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
	translator->whole = limits->whole;
	if (stream_open(&following.stream, translator, copy, watcher) < 0)
		return -1;
	if (limits->time_ns)
		following.deadline_ns = now_ns() + limits->time_ns;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	run(&following);
	sigprocmask(SIG_SETMASK, &before, NULL);
	stream_close(&following.stream);
	return 0;
}
