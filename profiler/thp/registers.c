/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "registers.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/uio.h>

/* syscall: 0f 05. */
#define INSTRUCTION_BYTES 2u

static const int argument_registers[] = { RDI, RSI, RDX, R10, R8, R9 };

int registers_read(pid_t tid, struct registers *registers)
{
	struct iovec place = { registers->raw, sizeof(registers->raw) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &place) < 0)
		return -1;
	if (place.iov_len == sizeof(registers->raw))
		return 0;
	errno = ENOTSUP;
	return -1;
}

int registers_write(pid_t tid, const struct registers *registers)
{
	struct registers copy = *registers;
	struct iovec place = { copy.raw, sizeof(copy.raw) };

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &place) < 0 ? -1 : 0;
}

long registers_call(const struct registers *registers)
{
	return (long)registers->raw[ORIG_RAX];
}

uint64_t registers_argument(const struct registers *registers, unsigned i)
{
	return registers->raw[argument_registers[i]];
}

void registers_set_argument(struct registers *registers, unsigned i, uint64_t value)
{
	registers->raw[argument_registers[i]] = value;
}

int64_t registers_result(const struct registers *registers)
{
	return (int64_t)registers->raw[RAX];
}

void registers_set_result(struct registers *registers, int64_t result)
{
	registers->raw[RAX] = (uint64_t)result;
}

void registers_skip(struct registers *registers, int64_t result)
{
	registers->raw[ORIG_RAX] = (uint64_t)-1;
	registers->raw[RAX] = (uint64_t)result;
}

void registers_repeat(struct registers *registers)
{
	registers->raw[RIP] -= INSTRUCTION_BYTES;
	registers->raw[RAX] = registers->raw[ORIG_RAX];
	registers->raw[ORIG_RAX] = (uint64_t)-1;
}

void registers_make_call(struct registers *registers, long call, const uint64_t arguments[6])
{
	uint64_t *raw = registers->raw;

	raw[RIP] -= INSTRUCTION_BYTES;
	raw[RAX] = (uint64_t)call;
	/* Else the kernel might take it for a call to restart. */
	raw[ORIG_RAX] = (uint64_t)-1;
	for (unsigned i = 0; i < 6; i++)
		registers_set_argument(registers, i, arguments[i]);
}
