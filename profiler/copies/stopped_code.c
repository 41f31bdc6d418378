/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stopped_code.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "area.h"
#include "code_cache.h"
#include "following.h"
#include "tracee.h"

int stopped_code_await(pid_t pid, int *status)
{
	for (;;) {
		if (tracee_wait(pid, TRACEE_OF_ONE_THREAD, status) < 0 || !WIFSTOPPED(*status))
			return -1;
		if (TRACEE_EVENT(*status) != PTRACE_EVENT_STOP || WSTOPSIG(*status) == SIGTRAP)
			return 0;
		if (ptrace(PTRACE_LISTEN, pid, NULL, NULL) < 0)
			return -1;
	}
}

bool stopped_code_registers(struct following *following, bool faulted)
{
	struct user_regs_struct *registers = &following->registers;
	const struct translator *translator = following->translator;
	const uint64_t code = translator->area + AREA_CODE;
	const struct cached_block *block;
	uint64_t offset, saved[2];
	unsigned i = 0;

	if (registers->rip < code || registers->rip >= code + AREA_CODE_BYTES)
		return true;
	offset = registers->rip - code;
	block = code_cache_at(translator, (uint32_t)offset);
	if (!block)
		return false;
	offset -= block->offset;
	if (offset == 0 && !block->before) {
		registers->rip = block->code.address;
		return true;
	}
	if (!block->starts || offset < block->body)
		return false;
	while (i < block->code.instruction_count && block->starts[i] < offset)
		i++;
	if (i == block->code.instruction_count) {
		/* Its last instruction is made of several; none of what they did lasts. */
		if (!faulted)
			return false;
		i--;
	}
	if (copy_read(following->copy, translator->area + AREA_FIRST, saved, sizeof(saved)) < 0)
		return false;
	*following_register(registers, block->first) = saved[0];
	*following_register(registers, block->second) = saved[1];
	registers->rip = block->code.instructions[i].address;
	return true;
}

/* It has reached an int3 of ours: where the program is.  False: that was none. */
static bool find_target(struct following *following)
{
	const struct translator *translator = following->translator;
	const uint64_t offset = following->registers.rip - 1 - (translator->area + AREA_CODE);
	const struct code_exit *code_exit;
	uint64_t target;

	if (offset >= AREA_CODE_BYTES)
		return false;
	if (following_is_unknown_target(offset)) {
		if (copy_read(following->copy, translator->area + AREA_TARGET, &target,
			      sizeof(target)) < 0)
			return false;
	} else {
		code_exit = address_map_get(&translator->exits, (uint32_t)offset);
		if (!code_exit)
			return false;
		target = code_exit->target;
	}
	following->registers.rip = target;
	return true;
}

int stopped_code_leave(struct following *following)
{
	const pid_t pid = following->copy->pid;
	uint64_t address;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || stopped_code_await(pid, &status) < 0 ||
		    ptrace(PTRACE_GETREGS, pid, NULL, &following->registers) < 0)
			return following_end(following, FOLLOW_EXITED);
		if (TRACEE_EVENT(status))
			continue;
		if (following_is_at_guard(following, &address)) {
			if (following_at_guard(following, address) == ENDED)
				return ENDED;
			continue;
		}
		if (WSTOPSIG(status) == SIGTRAP && find_target(following))
			return CONTINUES;
		if (stopped_code_registers(following, WSTOPSIG(status) != SIGTRAP))
			return CONTINUES;
		if (WSTOPSIG(status) != SIGTRAP)
			return following_end(following, FOLLOW_FAILED);
	}
}
