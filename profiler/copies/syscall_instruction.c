/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "syscall_instruction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define CHUNK_BYTES 65536u
#define REMEMBERED 16u

static struct {
	pid_t process;
	uint64_t address;
} remembered[REMEMBERED];
static unsigned next_remembered;

static ssize_t peek(pid_t process, uint64_t address, unsigned char *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(process, &here, 1, &there, 1, 0);
}

/* Returns 0, or -1. */
static int search(pid_t thread, uint64_t start, uint64_t end, uint64_t *address)
{
	static unsigned char code[CHUNK_BYTES];

	for (uint64_t at = start; at + 1 < end; at += CHUNK_BYTES - 1) {
		size_t bytes = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
		ssize_t length = peek(thread, at, code, bytes);

		for (ssize_t i = 0; i + 1 < length; i++) {
			if (code[i] != 0x0f || code[i + 1] != 0x05)
				continue;
			*address = at + (uint64_t)i;
			return 0;
		}
	}
	return -1;
}

static int find(pid_t process, pid_t thread, int in_vdso, uint64_t *address)
{
	char path[64], line[4352], permissions[5];
	uint64_t start, end;
	int rc = -1;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", process, thread);
	maps = fopen(path, "re");
	if (!maps)
		return -1;
	errno = ENOENT;
	while (rc < 0 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, permissions) != 3 ||
		    permissions[0] != 'r' || permissions[2] != 'x' || strstr(line, "[vsyscall]") ||
		    !!strstr(line, "[vdso]") != in_vdso)
			continue;
		rc = search(thread, start, end, address);
	}
	fclose(maps);
	if (rc < 0)
		errno = ENOENT;
	return rc;
}

int syscall_instruction_find(pid_t process, pid_t thread, uint64_t *address)
{
	unsigned char code[2];

	for (unsigned i = 0; i < REMEMBERED; i++) {
		if (remembered[i].process != process)
			continue;
		*address = remembered[i].address;
		if (peek(thread, *address, code, 2) == 2 && code[0] == 0x0f && code[1] == 0x05)
			return 0;
		remembered[i].process = 0;
	}
	if (find(process, thread, 1, address) < 0 && find(process, thread, 0, address) < 0)
		return -1;
	remembered[next_remembered].process = process;
	remembered[next_remembered].address = *address;
	next_remembered = (next_remembered + 1) % REMEMBERED;
	return 0;
}
