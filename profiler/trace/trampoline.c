/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trampoline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
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

extern const unsigned char trampoline_code[], trampoline_call[], trampoline_back[],
	trampoline_data[], trampoline_end[], trampoline_map[], trampoline_list[], trampoline_poll[];

/* As in trampoline_code.S, after how long a copy lives. */
struct trampoline_data {
	uint64_t flags, stack, mask, rax, rdi, rsi, rdx, rcx, r8, r9, r10, r11, rip;
	uint64_t turn;
};

/* struct timespec and struct pollfd. */
#define LIFE_BYTES 24u

static size_t code_bytes(void)
{
	return (size_t)(trampoline_data - trampoline_code) + LIFE_BYTES;
}

static size_t all_bytes(void)
{
	/* Code is aligned as compilers do. */
	return ((size_t)(trampoline_end - trampoline_code) + 15) / 16 * 16;
}

/* Where it was found last. */
static struct {
	pid_t process;
	struct trampoline trampoline;
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
		memcmp(code, trampoline_code, code_bytes()) == 0;
}

/*
 * The kernel pads the last page of the vDSO with zeros.  Twice the room is required, so that these
 * are not zeros of its own.
 */
static bool has_room(pid_t thread, uint64_t address)
{
	unsigned char bytes[2048];
	size_t length = 2 * all_bytes();

	if (length > sizeof(bytes) ||
	    peek(thread, address - all_bytes(), bytes, length) != (ssize_t)length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static void place(struct trampoline *trampoline, uint64_t code)
{
	trampoline->code = code;
	trampoline->call = code + (uint64_t)(trampoline_call - trampoline_code);
}

uint64_t trampoline_life(uint64_t call)
{
	return call + (uint64_t)(trampoline_data - trampoline_call);
}

uint64_t trampoline_poll_of(uint64_t call)
{
	return call + (uint64_t)(trampoline_poll - trampoline_call);
}

uint64_t trampoline_map_of(uint64_t call)
{
	return call + (uint64_t)(trampoline_map - trampoline_call);
}

uint64_t trampoline_list_of(uint64_t call)
{
	return call + (uint64_t)(trampoline_list - trampoline_call);
}

/* One before the other; each injector takes an unused one while there is one. */
#define MOST_PLACES 5u

static uint64_t place_of(uint64_t end, unsigned i)
{
	return end - (i + 1) * all_bytes();
}

static uint64_t turn_of(pid_t thread, uint64_t place)
{
	uint64_t turn = 0;

	peek(thread, place + code_bytes() + offsetof(struct trampoline_data, turn),
	     (unsigned char *)&turn, sizeof(turn));
	return turn;
}

/*
 * Take a free place, or else the one that was used longest ago: a thread may still be on its way
 * back for an injector that was killed, even inside a signal handler, and needs what is written
 * there.  `code` stays 0 if there is no room.
 */
static void find_place(struct trampoline *trampoline, pid_t thread, uint64_t end)
{
	uint64_t chosen = 0, oldest = UINT64_MAX;

	trampoline->turn = 1;
	for (unsigned i = 0; i < MOST_PLACES; i++) {
		const uint64_t here = place_of(end, i);
		const bool taken = is_written(thread, here);
		const uint64_t turn = taken ? turn_of(thread, here) : 0;

		if (!taken && !has_room(thread, here))
			break;
		if (turn >= trampoline->turn)
			trampoline->turn = turn + 1;
		if (turn < oldest) {
			oldest = turn;
			chosen = here;
		}
		if (!taken)
			break;
	}
	if (chosen) {
		place(trampoline, chosen);
		trampoline->end = end;
	}
}

bool trampoline_is_under_way(const struct trampoline *trampoline, pid_t thread, uint64_t at)
{
	if (at < trampoline->end && trampoline->end - at <= MOST_PLACES * all_bytes())
		return is_written(thread,
				  place_of(trampoline->end,
					   (unsigned)((trampoline->end - at - 1) / all_bytes())));
	return at % PAGE_BYTES < all_bytes() && is_written(thread, at / PAGE_BYTES * PAGE_BYTES);
}

static void look_at(struct trampoline *trampoline, pid_t thread, uint64_t start, uint64_t end,
		    bool vdso)
{
	if (vdso)
		find_place(trampoline, thread, end);
	if (!trampoline->code && !trampoline->plain)
		trampoline->plain = search(thread, start, end);
}

/* A file that was not opened: because there is no such thread. */
static int gone(void)
{
	if (errno == ENOENT)
		errno = ESRCH;
	return -1;
}

static int look(struct trampoline *trampoline, pid_t process, pid_t thread)
{
	char path[64], line[4352], permissions[5];
	uint64_t start, end;
	bool empty = true;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", process, thread);
	maps = fopen(path, "re");
	if (!maps)
		return gone();
	while (!trampoline->code && fgets(line, sizeof(line), maps)) {
		empty = false;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, permissions) == 3 &&
		    permissions[0] == 'r' && permissions[2] == 'x' && !strstr(line, "[vsyscall]"))
			look_at(trampoline, thread, start, end, strstr(line, "[vdso]") != NULL);
	}
	fclose(maps);
	if (trampoline->code || trampoline->plain)
		return 0;
	/* One that ends has no memory any more. */
	errno = empty ? ESRCH : ENOENT;
	return -1;
}

/* It is another program after execve(). */
static bool remember(struct trampoline *trampoline, pid_t process, pid_t thread)
{
	for (unsigned i = 0; i < REMEMBERED; i++) {
		if (remembered[i].process != process)
			continue;
		*trampoline = remembered[i].trampoline;
		if (trampoline->code ? is_written(thread, trampoline->code) :
		    has_call(thread, trampoline->plain))
			return true;
		remembered[i].process = 0;
	}
	return false;
}

int trampoline_open(struct trampoline *trampoline, pid_t process, pid_t thread)
{
	char path[64];

	if (!remember(trampoline, process, thread)) {
		memset(trampoline, 0, sizeof(*trampoline));
		if (look(trampoline, process, thread) < 0)
			return -1;
		remembered[next_remembered].process = process;
		remembered[next_remembered].trampoline = *trampoline;
		next_remembered = (next_remembered + 1) % REMEMBERED;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", process, thread);
	trampoline->memory = open(path, O_RDWR | O_CLOEXEC);
	return trampoline->memory < 0 ? gone() : 0;
}

void trampoline_close(struct trampoline *trampoline)
{
	if (trampoline->memory >= 0)
		close(trampoline->memory);
	trampoline->memory = -1;
}

/* The memory is read-only for the program, but not for its tracer. */
static int write_memory(const struct trampoline *trampoline, pid_t thread, uint64_t address,
			const void *buffer, size_t bytes)
{
	uint64_t word;

	if (pwrite(trampoline->memory, buffer, bytes, (off_t)address) == (ssize_t)bytes)
		return 0;
	/* Newer kernels can be configured to refuse that, but not this. */
	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, (const char *)buffer + i, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, thread, (void *)(uintptr_t)(address + i),
			   (void *)(uintptr_t)word) < 0)
			return -1;
	}
	return 0;
}

static int map_page(struct trampoline *trampoline, pid_t thread,
		    const struct user_regs_struct *registers)
{
	const uint64_t arguments[6] = {
		0, PAGE_BYTES, PROT_READ | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, ~(uint64_t)0, TRAMPOLINE_BACK,
	};
	const uint64_t all = ~(uint64_t)0;
	int64_t result;

	if (!has_call(thread, trampoline->plain)) {
		errno = EAGAIN;
		return -1;
	}
	/* For this call there is no way back yet. */
	if (ptrace(PTRACE_SETSIGMASK, thread, sizeof(all), &all) < 0)
		return -1;
	result = tracee_call(thread, registers, trampoline->plain, SYS_mmap, arguments,
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
	trampoline->own_page = true;
	place(trampoline, (uint64_t)result);
	return 0;
}

int trampoline_lay(struct trampoline *trampoline, pid_t thread, uint64_t mask,
	       struct user_regs_struct *registers)
{
	const struct trampoline_data data = {
		.flags = registers->eflags, .stack = registers->rsp, .mask = mask,
		.rax = registers->rax, .rdi = registers->rdi, .rsi = registers->rsi,
		.rdx = registers->rdx, .rcx = registers->rcx, .r8 = registers->r8,
		.r9 = registers->r9, .r10 = registers->r10, .r11 = registers->r11,
		.rip = registers->rip, .turn = trampoline->turn,
	};

	if (!trampoline->code && map_page(trampoline, thread, registers) < 0)
		return -1;
	if (!is_written(thread, trampoline->code)) {
		/* Another program, by an execve() in between? */
		if (!trampoline->own_page && !has_room(thread, trampoline->code)) {
			errno = EAGAIN;
			return -1;
		}
		if (write_memory(trampoline, thread, trampoline->code, trampoline_code,
				 code_bytes()) < 0)
			return -1;
	}
	if (write_memory(trampoline, thread, trampoline->code + code_bytes(), &data,
			 sizeof(data)) < 0)
		return -1;
	registers->rip = trampoline->code + (uint64_t)(trampoline_back - trampoline_code);
	return 0;
}

void trampoline_lift(struct trampoline *trampoline, pid_t thread,
		     const struct user_regs_struct *registers)
{
	const uint64_t arguments[6] = { trampoline->code, PAGE_BYTES };

	if (trampoline->own_page)
		tracee_call(thread, registers, trampoline->plain, SYS_munmap, arguments,
			    TRACEE_FOR_EVER, NULL);
	trampoline->own_page = false;
}
