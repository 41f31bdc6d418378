/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "live_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define PATIENCE_NS 5000000000u

/* The kernel maps code with a system call into each process: the vdso. */
int live_find_instruction(pid_t pid, uint64_t *instruction)
{
	char path[32], line[256];
	unsigned char code[1 << 14];
	uint64_t start, end;
	ssize_t length = 0, offset;
	FILE *maps;
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	while (maps && mem >= 0 && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vdso]") &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			length = pread(mem, code, sizeof(code) < end - start ? sizeof(code) :
				       (size_t)(end - start), (off_t)start);
	if (maps)
		fclose(maps);
	if (mem >= 0)
		close(mem);
	offset = length > 0 ? registers_find_instruction(code, (size_t)length) : -1;
	if (offset < 0) {
		errno = ENOTSUP;
		return -1;
	}
	*instruction = start + (uint64_t)offset;
	return 0;
}

void live_nap(uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	nanosleep(&time, NULL);
}

/* Until the thread has stopped because it was asked to. */
static int wait_until_stopped(pid_t pid)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;
	int status;

	while (clock_ns() < deadline) {
		pid_t rc = waitpid(pid, &status, __WALL | WNOHANG);

		if (rc < 0 || (rc == pid && !WIFSTOPPED(status))) {
			errno = ESRCH;
			return -1;
		}
		if (rc == pid && status >> 16 == PTRACE_EVENT_STOP)
			return 0;
		if (rc == pid)
			/* A signal that came first. */
			ptrace(PTRACE_CONT, pid, NULL, (long)WSTOPSIG(status));
		else
			live_nap(100000);
	}
	errno = ETIMEDOUT;
	return -1;
}

int live_stop(pid_t pid, uint64_t instruction, struct injection *injection)
{
	struct registers registers;
	int error;

	if (ptrace(PTRACE_SEIZE, pid, NULL, (long)PTRACE_O_TRACESYSGOOD) < 0)
		return -1;
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	if (wait_until_stopped(pid) < 0)
		return -1;
	if (registers_read(pid, &registers) == 0) {
		registers_restart(&registers);
		if (injection_begin(injection, pid, instruction, &registers) == 0)
			return 0;
	}
	error = errno;
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	errno = error;
	return -1;
}

int live_let_go(struct injection *injection)
{
	int rc = injection_end(injection);

	ptrace(PTRACE_DETACH, injection->tid, NULL, NULL);
	return rc;
}
