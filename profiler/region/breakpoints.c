/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "breakpoints.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define INT3 0xccu

int breakpoints_supported(void)
{
#ifdef __x86_64__
	return 1;
#else
	return 0;
#endif
}

int place_parse(struct place *place, const char *text)
{
	char *end;

	errno = 0;
	place->offset = strtoull(text, &end, 10);
	if (errno || end == text || *end != ':' || !end[1])
		return -1;
	place->file = end + 1;
	return 0;
}

static FILE *open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

int breakpoints_find(struct breakpoints *all, pid_t pid, const struct place *places, unsigned count)
{
	FILE *file = open_of(pid, "maps");
	char *line = NULL;
	size_t size = 0;

	memset(all, 0, sizeof(*all));
	all->count = count;
	if (!file)
		return -1;
	while (getline(&line, &size, file) > 0) {
		uint64_t start, end, offset;
		int name = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &start, &end,
			   &offset, &name) < 3 || !name)
			continue;
		for (unsigned i = 0; i < count; i++)
			if (strcmp(line + name, places[i].file) == 0 && places[i].offset >= offset &&
			    places[i].offset - offset < end - start)
				all->at[i].address = start + (places[i].offset - offset);
	}
	free(line);
	fclose(file);
	return 0;
}

void breakpoints_one(struct breakpoints *all, uint64_t address)
{
	memset(all, 0, sizeof(*all));
	all->at[0].address = address;
	all->count = address != 0;
}

/* Change one byte of code; *before: what was there. */
static int exchange(pid_t tid, uint64_t address, unsigned char code, unsigned char *before)
{
	void *place = (void *)(uintptr_t)(address & ~(uint64_t)7);
	const unsigned shift = (unsigned)(address & 7) * 8;
	unsigned long word;

	errno = 0;
	word = (unsigned long)ptrace(PTRACE_PEEKTEXT, tid, place, NULL);
	if (errno)
		return -1;
	*before = (unsigned char)(word >> shift);
	word = (word & ~(0xfful << shift)) | (unsigned long)code << shift;
	return ptrace(PTRACE_POKETEXT, tid, place, (void *)word) < 0 ? -1 : 0;
}

int breakpoints_set(struct breakpoints *all, pid_t tid)
{
	for (unsigned i = 0; i < all->count; i++) {
		struct breakpoint *each = &all->at[i];

		if (!each->address || each->set)
			continue;
		if (exchange(tid, each->address, INT3, &each->code) < 0)
			return -1;
		each->set = 1;
	}
	return 0;
}

int breakpoints_clear(struct breakpoints *all, pid_t tid)
{
	unsigned char was;

	for (unsigned i = 0; i < all->count; i++) {
		struct breakpoint *each = &all->at[i];

		if (each->set && exchange(tid, each->address, each->code, &was) < 0)
			return -1;
		each->set = 0;
	}
	return 0;
}

void breakpoints_clear_copy(const struct breakpoints *all, pid_t tid)
{
	unsigned char was;

	for (unsigned i = 0; i < all->count; i++)
		if (all->at[i].set)
			exchange(tid, all->at[i].address, all->at[i].code, &was);
}

int breakpoints_have(const struct breakpoints *all, uint64_t address)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->at[i].address == address)
			return 1;
	return 0;
}

#ifdef __x86_64__
static void *const instruction_pointer = (void *)offsetof(struct user, regs.rip);

uint64_t breakpoint_hit(pid_t tid)
{
	siginfo_t info;
	long after;

	/* SI_KERNEL: by an instruction, not by kill(). */
	if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) < 0 || info.si_code != SI_KERNEL)
		return 0;
	errno = 0;
	after = ptrace(PTRACE_PEEKUSER, tid, instruction_pointer, NULL);
	return errno ? 0 : (uint64_t)after - 1;
}

int breakpoint_back(pid_t tid, uint64_t address)
{
	return ptrace(PTRACE_POKEUSER, tid, instruction_pointer, (void *)address) < 0 ? -1 : 0;
}
#else
uint64_t breakpoint_hit(pid_t tid)
{
	(void)tid;
	return 0;
}

int breakpoint_back(pid_t tid, uint64_t address)
{
	(void)tid, (void)address;
	errno = ENOTSUP;
	return -1;
}
#endif

uint64_t entry_of(pid_t pid)
{
	FILE *file = open_of(pid, "auxv");
	Elf64_auxv_t each;
	uint64_t entry = 0;

	while (file && fread(&each, sizeof(each), 1, file) == 1)
		if (each.a_type == AT_ENTRY)
			entry = each.a_un.a_val;
	if (file)
		fclose(file);
	return entry;
}
