/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "registers.h"

#include <errno.h>

#ifdef __x86_64__
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* syscall: 0f 05.  Sixteen bits that nothing else means in a position where code starts. */
#define INSTRUCTION_BYTES 2u

/* Of the kernel alone (include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };

static const int argument_registers[] = { RDI, RSI, RDX, R10, R8, R9 };

int registers_supported(void)
{
	return 1;
}

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

void registers_make_call(struct registers *registers, uint64_t instruction, long call,
			 const uint64_t arguments[3])
{
	uint64_t *raw = registers->raw;

	raw[RIP] = instruction ? instruction : raw[RIP] - INSTRUCTION_BYTES;
	raw[RAX] = (uint64_t)call;
	/* Else the kernel might take it for a call to restart. */
	raw[ORIG_RAX] = (uint64_t)-1;
	/* prctl() wants the others to be 0. */
	for (unsigned i = 0; i < 6; i++)
		registers_set_argument(registers, i, i < 3 ? arguments[i] : 0);
}

/* Calls that return EINTR after any stop, which a program without signals need not expect. */
static int is_interrupted(long call)
{
	return call == SYS_epoll_wait || call == SYS_epoll_pwait || call == SYS_semop ||
	       call == SYS_semtimedop || call == SYS_rt_sigtimedwait;
}

void registers_restart(struct registers *registers)
{
	uint64_t *raw = registers->raw;

	if ((long)raw[ORIG_RAX] < 0)
		return;
	switch (-(long)raw[RAX]) {
	case RESTARTSYS:
	case RESTARTNOINTR:
	case RESTARTNOHAND:
		raw[RAX] = raw[ORIG_RAX];
		break;
	case RESTART_BLOCK:
		raw[RAX] = SYS_restart_syscall;
		break;
	case EINTR:
		if (!is_interrupted((long)raw[ORIG_RAX]))
			return;
		raw[RAX] = raw[ORIG_RAX];
		break;
	default:
		return;
	}
	raw[RIP] -= INSTRUCTION_BYTES;
	raw[ORIG_RAX] = (uint64_t)-1;
}

ssize_t registers_find_instruction(const unsigned char *memory, size_t length)
{
	for (size_t i = 0; i + INSTRUCTION_BYTES <= length; i++)
		if (memory[i] == 0x0f && memory[i + 1] == 0x05)
			return (ssize_t)i;
	return -1;
}

#else

int registers_supported(void)
{
	return 0;
}

int registers_read(pid_t tid, struct registers *registers)
{
	(void)tid;
	registers->raw[0] = 0;
	errno = ENOSYS;
	return -1;
}

int registers_write(pid_t tid, const struct registers *registers)
{
	(void)tid;
	(void)registers;
	errno = ENOSYS;
	return -1;
}

long registers_call(const struct registers *registers)
{
	(void)registers;
	return -1;
}

uint64_t registers_argument(const struct registers *registers, unsigned i)
{
	(void)i;
	return registers->raw[0];
}

void registers_set_argument(struct registers *registers, unsigned i, uint64_t value)
{
	(void)i;
	registers->raw[0] = value;
}

int64_t registers_result(const struct registers *registers)
{
	return (int64_t)registers->raw[0];
}

void registers_set_result(struct registers *registers, int64_t result)
{
	registers->raw[0] = (uint64_t)result;
}

void registers_skip(struct registers *registers, int64_t result)
{
	registers_set_result(registers, result);
}

void registers_make_call(struct registers *registers, uint64_t instruction, long call,
			 const uint64_t arguments[3])
{
	(void)instruction;
	(void)call;
	registers->raw[0] = arguments[0];
}

void registers_restart(struct registers *registers)
{
	(void)registers;
}

ssize_t registers_find_instruction(const unsigned char *memory, size_t length)
{
	(void)memory;
	(void)length;
	return -1;
}

#endif
