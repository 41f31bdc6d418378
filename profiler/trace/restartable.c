/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "restartable.h"

#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define GET_RSEQ_CONFIGURATION 0x420f

/* As ptrace gives it. */
struct configuration {
	uint64_t area;
	uint32_t size, signature, flags, pad;
};

/* struct rseq_cs of linux/rseq.h. */
struct sequence {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* Of struct rseq: where the address of the sequence is that the thread is in. */
#define SEQUENCE_OFFSET 8u

static bool peek(pid_t thread, uint64_t address, void *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(thread, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool restartable_abort(pid_t thread, struct user_regs_struct *registers)
{
	struct configuration configuration = { .area = 0 };
	struct sequence sequence;
	uint64_t address;

	if (ptrace(GET_RSEQ_CONFIGURATION, thread, sizeof(configuration), &configuration) < 0 ||
	    !configuration.area ||
	    !peek(thread, configuration.area + SEQUENCE_OFFSET, &address, sizeof(address)) ||
	    !address || !peek(thread, address, &sequence, sizeof(sequence)) ||
	    registers->rip - sequence.start >= sequence.length)
		return false;
	/* The kernel clears the address as soon as the thread runs elsewhere: in our calls. */
	registers->rip = sequence.abort;
	return true;
}
