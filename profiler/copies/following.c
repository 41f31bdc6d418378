/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "following.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "area.h"
#include "code_pages.h"
#include "faults.h"
#include "translate.h"

extern const uint8_t lookup_begin[], lookup_unknown[];

int following_end(struct following *following, enum follow_end how)
{
	following->followed->end = how;
	return ENDED;
}

int64_t following_call(struct following *following, long number, const uint64_t arguments[6])
{
	int64_t result = copy_call(following->copy, &following->registers, number, arguments);

	if (result == COPY_LOST)
		errno = ESRCH;
	else if (result < 0)
		errno = (int)-result;
	return result;
}

static uint64_t guard_of(const struct translator *translator)
{
	return translator->area + AREA_BUFFER + AREA_BUFFER_BYTES;
}

/* The area is at the same place in each copy, unless something of the program's is there now. */
int following_map_area(struct following *following)
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
	area = following_call(following, SYS_mmap, arguments);
	if (area < 0 && area != COPY_LOST && translator->area) {
		arguments[0] = 0;
		arguments[3] &= ~(uint64_t)MAP_FIXED_NOREPLACE;
		area = following_call(following, SYS_mmap, arguments);
	}
	if (area < 0)
		return -1;
	/* Code refers to the area by GS, and to itself by distances: it may be anywhere. */
	translator->area = (uint64_t)area;
	guard[0] = guard_of(translator);
	return following_call(following, SYS_mprotect, guard) < 0 ? -1 : 0;
}

int following_set_registers(struct following *following)
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

	following->registers.rip = following->followed->address = address;
	if (code_cache_full(translator) && make_space(following, address) < 0) {
		following_end(following, FOLLOW_FAILED);
		return NULL;
	}
	errno = EFAULT;
	block = translate_code(translator, following->copy, address);
	following->followed->translated += translator->count - before;
	if (!block)
		following_end(following, errno == EFAULT ? FOLLOW_INSTRUCTION : FOLLOW_FAILED);
	return block;
}

/* It runs the block's code next, with all that is new. */
static int run_block(struct following *following, const struct cached_block *block)
{
	struct translator *translator = following->translator;

	if (code_cache_send(translator, following->copy) < 0 ||
	    faults_protect(translator, following->copy, &following->registers) < 0)
		return following_end(following, FOLLOW_FAILED);
	following->registers.rip = translator->area + AREA_CODE + block->offset;
	if (following_set_registers(following) < 0)
		return following_end(following, FOLLOW_FAILED);
	return CONTINUES;
}

int following_enter(struct following *following, uint64_t address)
{
	const struct cached_block *block = block_at(following, address);

	return block ? run_block(following, block) : ENDED;
}

int following_chain(struct following *following, uint32_t exit_offset, uint64_t address)
{
	const struct cached_block *block = block_at(following, address);

	if (!block)
		return ENDED;
	if (code_cache_chain(following->translator, exit_offset, block) < 0)
		return following_end(following, FOLLOW_FAILED);
	return run_block(following, block);
}

bool following_changes_mappings(uint64_t number)
{
	return number == SYS_mmap || number == SYS_munmap || number == SYS_mprotect ||
	       number == SYS_mremap;
}

int following_mapped_anew(struct following *following, uint64_t start, uint64_t bytes)
{
	struct translator *translator = following->translator;
	bool any = false;

	for (size_t i = 0; i < translator->pages.capacity; i++) {
		const struct address_entry *entry = &translator->pages.entries[i];
		const uint64_t page = entry->address << CODE_PAGE_SHIFT;

		if (!entry->value || page + CODE_PAGE_BYTES <= start || page >= start + bytes)
			continue;
		any = true;
		if (code_pages_written(translator, entry->value) < 0)
			return -1;
	}
	if (!any && !copy_mappings_find(&translator->mappings, start))
		return 0;
	copy_mappings_free(&translator->mappings);
	return copy_mappings_read(&translator->mappings, following->copy->pid);
}

unsigned long long *following_register(struct user_regs_struct *r, unsigned number)
{
	unsigned long long *const registers[16] = {
		&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp, &r->rsi, &r->rdi,
		&r->r8, &r->r9, &r->r10, &r->r11, &r->r12, &r->r13, &r->r14, &r->r15,
	};

	return registers[number & 15u];
}

/* Whether it has only filled its buffer, at that address. */
bool following_is_at_guard(const struct following *following, uint64_t *address)
{
	const uint64_t guard = guard_of(following->translator);
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, following->copy->pid, NULL, &info) < 0 ||
	    info.si_signo != SIGSEGV)
		return false;
	*address = (uint64_t)(uintptr_t)info.si_addr;
	return *address >= guard && *address < guard + AREA_GUARD_BYTES;
}

int following_at_guard(struct following *following, uint64_t address)
{
	const uint64_t code = following->translator->area + AREA_CODE;
	const struct cached_block *block =
		code_cache_at(following->translator, (uint32_t)(following->registers.rip - code));

	if (!block || stream_turn(&following->stream, address,
				  following_register(&following->registers,
						     block->first)) < 0)
		return following_end(following, FOLLOW_FAILED);
	if (following_set_registers(following) < 0)
		return following_end(following, FOLLOW_FAILED);
	return CONTINUES;
}

bool following_is_unknown_target(uint64_t offset)
{
	return offset == (uint64_t)(lookup_unknown - lookup_begin);
}
