/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "detour.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tracee.h"

#define PAGE_BYTES 4096u
#define CHUNK_BYTES 65536u
#define REMEMBERED 16u

extern const unsigned char detour_code[], detour_call[], detour_back[], detour_data[], detour_end[];

/* As in detour_code.S, after how long a copy lives. */
struct detour_data {
	uint64_t flags, stack, mask, rax, rdi, rsi, rdx, rcx, r8, r9, r10, r11, rip;
};

#define LIFE_BYTES 16u

static size_t code_bytes(void)
{
	return (size_t)(detour_data - detour_code) + LIFE_BYTES;
}

static size_t all_bytes(void)
{
	/* Code is aligned as compilers do. */
	return ((size_t)(detour_end - detour_code) + 15) / 16 * 16;
}

/* Where it was found last. */
static struct {
	pid_t process;
	struct detour detour;
} remembered[REMEMBERED];
static unsigned next_remembered;

static ssize_t peek(pid_t thread, uint64_t address, unsigned char *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(thread, &here, 1, &there, 1, 0);
}

static bool has_call(pid_t thread, uint64_t address)
{
	unsigned char code[2];

	return peek(thread, address, code, 2) == 2 && code[0] == 0x0f && code[1] == 0x05;
}

/* A `syscall` instruction in [start, end), or 0. */
static uint64_t search(pid_t thread, uint64_t start, uint64_t end)
{
	static unsigned char code[CHUNK_BYTES];

	for (uint64_t at = start; at + 1 < end; at += CHUNK_BYTES - 1) {
		size_t bytes = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
		ssize_t length = peek(thread, at, code, bytes);

		for (ssize_t i = 0; i + 1 < length; i++)
			if (code[i] == 0x0f && code[i + 1] == 0x05)
				return at + (uint64_t)i;
	}
	return 0;
}

static bool is_written(pid_t thread, uint64_t address)
{
	unsigned char code[512];

	return peek(thread, address, code, code_bytes()) == (ssize_t)code_bytes() &&
		memcmp(code, detour_code, code_bytes()) == 0;
}

/*
 * The kernel fills the last page of the vDSO up with zeros.  So much of them that they are none of
 * its own: at least as much again is left.
 */
static bool has_room(pid_t thread, uint64_t address)
{
	unsigned char bytes[1024];
	size_t length = 2 * all_bytes();

	if (is_written(thread, address))
		return true;
	if (length > sizeof(bytes) ||
	    peek(thread, address - all_bytes(), bytes, length) != (ssize_t)length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static void place(struct detour *detour, uint64_t code)
{
	detour->code = code;
	detour->call = code + (uint64_t)(detour_call - detour_code);
}

uint64_t detour_life(uint64_t call)
{
	return call + (uint64_t)(detour_data - detour_call);
}

static void look_at(struct detour *detour, pid_t thread, uint64_t start, uint64_t end, bool vdso)
{
	if (vdso && has_room(thread, end - all_bytes()))
		place(detour, end - all_bytes());
	else if (!detour->plain)
		detour->plain = search(thread, start, end);
}

/* A file that was not opened: because there is no such thread. */
static int gone(void)
{
	if (errno == ENOENT)
		errno = ESRCH;
	return -1;
}

static int look(struct detour *detour, pid_t process, pid_t thread)
{
	char path[64], line[4352], permissions[5];
	uint64_t start, end;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", process, thread);
	maps = fopen(path, "re");
	if (!maps)
		return gone();
	while (!detour->code && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, permissions) == 3 &&
		    permissions[0] == 'r' && permissions[2] == 'x' && !strstr(line, "[vsyscall]"))
			look_at(detour, thread, start, end, strstr(line, "[vdso]") != NULL);
	fclose(maps);
	if (detour->code || detour->plain)
		return 0;
	errno = ENOENT;
	return -1;
}

/* It is another program after execve(). */
static bool remember(struct detour *detour, pid_t process, pid_t thread)
{
	for (unsigned i = 0; i < REMEMBERED; i++) {
		if (remembered[i].process != process)
			continue;
		*detour = remembered[i].detour;
		if (detour->code ? is_written(thread, detour->code) :
		    has_call(thread, detour->plain))
			return true;
		remembered[i].process = 0;
	}
	return false;
}

int detour_open(struct detour *detour, pid_t process, pid_t thread)
{
	char path[64];

	if (!remember(detour, process, thread)) {
		memset(detour, 0, sizeof(*detour));
		if (look(detour, process, thread) < 0)
			return -1;
		remembered[next_remembered].process = process;
		remembered[next_remembered].detour = *detour;
		next_remembered = (next_remembered + 1) % REMEMBERED;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", process, thread);
	detour->memory = open(path, O_RDWR | O_CLOEXEC);
	return detour->memory < 0 ? gone() : 0;
}

void detour_close(struct detour *detour)
{
	if (detour->memory >= 0)
		close(detour->memory);
	detour->memory = -1;
}

/* The memory cannot be written by the program itself, but by its tracer. */
static int write_memory(const struct detour *detour, pid_t thread, uint64_t address,
			const void *buffer, size_t bytes)
{
	uint64_t word;

	if (pwrite(detour->memory, buffer, bytes, (off_t)address) == (ssize_t)bytes)
		return 0;
	/* Newer kernels can be told to refuse that, but not this. */
	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, (const char *)buffer + i, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, thread, (void *)(uintptr_t)(address + i),
			   (void *)(uintptr_t)word) < 0)
			return -1;
	}
	return 0;
}

static int map_page(struct detour *detour, pid_t thread, const struct user_regs_struct *registers)
{
	const uint64_t arguments[6] = { 0, PAGE_BYTES, PROT_READ | PROT_EXEC,
					MAP_PRIVATE | MAP_ANONYMOUS, ~(uint64_t)0, DETOUR_BACK };
	const uint64_t all = ~(uint64_t)0;
	int64_t result;

	if (!has_call(thread, detour->plain)) {
		errno = EAGAIN;
		return -1;
	}
	/* For this call there is no way back yet. */
	if (ptrace(PTRACE_SETSIGMASK, thread, sizeof(all), &all) < 0)
		return -1;
	result = tracee_call(thread, registers, detour->plain, SYS_mmap, arguments,
			     TRACEE_FOR_EVER, NULL);
	if (result == TRACEE_LOST) {
		errno = ESRCH;
		return -1;
	}
	if (result < 0) {
		errno = (int)-result;
		ptrace(PTRACE_SETREGS, thread, NULL, registers);
		return -1;
	}
	detour->own_page = true;
	place(detour, (uint64_t)result);
	return 0;
}

int detour_lay(struct detour *detour, pid_t thread, uint64_t mask,
	       struct user_regs_struct *registers)
{
	const struct detour_data data = {
		.flags = registers->eflags, .stack = registers->rsp, .mask = mask,
		.rax = registers->rax, .rdi = registers->rdi, .rsi = registers->rsi,
		.rdx = registers->rdx, .rcx = registers->rcx, .r8 = registers->r8,
		.r9 = registers->r9, .r10 = registers->r10, .r11 = registers->r11,
		.rip = registers->rip,
	};

	if (!detour->code && map_page(detour, thread, registers) < 0)
		return -1;
	if (!is_written(thread, detour->code)) {
		/* Another program, by an execve() in between? */
		if (!detour->own_page && !has_room(thread, detour->code)) {
			errno = EAGAIN;
			return -1;
		}
		if (write_memory(detour, thread, detour->code, detour_code, code_bytes()) < 0)
			return -1;
	}
	if (write_memory(detour, thread, detour->code + code_bytes(), &data, sizeof(data)) < 0)
		return -1;
	registers->rip = detour->code + (uint64_t)(detour_back - detour_code);
	return 0;
}

void detour_lift(struct detour *detour, pid_t thread, const struct user_regs_struct *registers)
{
	const uint64_t arguments[6] = { detour->code, PAGE_BYTES };

	if (detour->own_page)
		tracee_call(thread, registers, detour->plain, SYS_munmap, arguments,
			    TRACEE_FOR_EVER, NULL);
	detour->own_page = false;
}
