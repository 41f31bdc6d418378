/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stop.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "heap.h"
#include "injection.h"
#include "vma.h"

/* Since Linux 6.1; headers of the C library may be older. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static int advise(struct injection *injection, uint64_t start, uint64_t end, uint64_t advice,
		  int64_t *result)
{
	const uint64_t arguments[6] = { start, end - start, advice };

	return injection_call(injection, SYS_madvise, arguments, result);
}

/*
 * The thread's process asks for huge pages in [start, end), as madvise() does.
 * Returns 0; or -1 if the thread ends or is lost (see injection.h).  What the
 * kernel refuses stays as it was.
 */
static int request_huge(struct injection *injection, uint64_t start, uint64_t end)
{
	int64_t result;

	return advise(injection, start, end, MADV_HUGEPAGE, &result);
}

/*
 * Put what [start, end) has on base pages onto huge ones.  Returns 0; 1 if the kernel refuses with
 * EINVAL; or -1 as above.
 */
static int request_collapse(struct injection *injection, uint64_t start, uint64_t end)
{
	int64_t result;

	if (advise(injection, start, end, MADV_COLLAPSE, &result) < 0)
		return -1;
	return result == -EINVAL;
}

/* Returns 1, or -1. */
static int replace(struct injection *injection, uint64_t start, uint64_t end)
{
	if (request_huge(injection, start, end) < 0)
		return -1;
	return request_collapse(injection, start, end) < 0 ? -1 : 1;
}

/*
 * New usable memory [start, end) may complete a huge page of which others had
 * the rest: then part of it is on base pages already, and the kernel gives a
 * huge page only where there is none.  If the first or the last one became
 * complete, it asks and is collapsed.  Returns how many did, or -1 as above.
 */
static int request_completed(struct injection *injection, uint64_t start, uint64_t end,
		      uint64_t huge_page_bytes)
{
	uint64_t size = huge_page_bytes;
	uint64_t first = start / size * size, last = end / size * size;
	int rc = 0, more = 0;
	struct vma vma;

	if (first == start && last == end)
		return 0;
	if (!vma_find(injection->tid, start, &vma) || !vma.anonymous)
		return 0;
	if (first != start && vma.start <= first && vma.end >= first + size)
		rc = replace(injection, first, first + size);
	if (rc >= 0 && last != end && (last != first || first == start) && vma.start <= last &&
	    vma.end >= last + size)
		more = replace(injection, last, last + size);
	return rc < 0 || more < 0 ? -1 : rc + more;
}

/* Of bss: as traced_calls.h of mmap. */
#define LEAST_BYTES (16u << 10)
/* Huge pages of an arena. */
#define ARENA_PAGES 16u
#define PAGE_BYTES 4096u
/* x86's alone. */
#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif

static void go_on(const struct task *task)
{
	/* One that was killed says so when it is waited for. */
	ptrace(PTRACE_CONT, task->tid, NULL, NULL);
}

static void go_to_exit(struct task *task)
{
	task->state = TASK_IN_CALL;
	ptrace(PTRACE_SYSCALL, task->tid, NULL, NULL);
}

static uint64_t page_end(uint64_t address)
{
	return (address + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Returns 0, or -1 with errno. */
static int clear(pid_t pid, uint64_t start, uint64_t end)
{
	static const char zeros[64u << 10];

	while (start < end) {
		const size_t bytes = end - start < sizeof(zeros) ? end - start : sizeof(zeros);
		const struct iovec from = { (void *)(uintptr_t)zeros, bytes };
		const struct iovec to = { (void *)(uintptr_t)start, bytes };

		if (process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)bytes)
			return -1;
		start += bytes;
	}
	return 0;
}

static void at_brk(const struct stops *stops, struct task *task)
{
	const struct memory *memory = task->memory;
	const uint64_t wanted = registers_argument(&task->entry, 0);
	struct registers changed = task->entry;
	uint64_t end;

	switch (heap_enter(task->memory, wanted, stops->huge_page_bytes, &end)) {
	case HEAP_ANSWER:
		registers_skip(&changed, (int64_t)end);
		registers_write(task->tid, &changed);
		go_on(task);
		return;
	case HEAP_SHRINK:
		/* Of whole pages, as the kernel takes them away; else it shrinks exactly. */
		if (clear(task->tid, page_end(wanted), page_end(memory->believed_end) < end ?
						       page_end(memory->believed_end) : end) < 0)
			break;
		/* fall through */
	case HEAP_GROW:
		registers_set_argument(&changed, 0, end);
		registers_write(task->tid, &changed);
		break;
	case HEAP_PASS:
		break;
	}
	go_to_exit(task);
}

/*
 * Small mappings are cut from an arena that has asked for huge pages: a stop each, where each would
 * ask by itself, and pages that are there already would have to be copied together.  An allocator
 * may propose where the last one ended (LuaJIT).
 */
static int takes_from_arena(const struct stops *stops, const struct task *task)
{
	const uint64_t address = registers_argument(&task->entry, 0);
	const uint64_t flags = registers_argument(&task->entry, 3) & ~(uint64_t)MAP_NORESERVE;

	return registers_argument(&task->entry, 2) == (PROT_READ | PROT_WRITE) &&
	       flags == (MAP_PRIVATE | MAP_ANONYMOUS) && !task->memory->arena_refused &&
	       registers_argument(&task->entry, 1) < stops->huge_page_bytes &&
	       (!address || address == task->memory->arena_next);
}

static void at_small_mmap(const struct stops *stops, struct task *task)
{
	const uint64_t bytes = page_end(registers_argument(&task->entry, 1));
	struct memory *memory = task->memory;
	struct registers changed = task->entry;

	if (memory->arena_end - memory->arena_next >= bytes) {
		registers_skip(&changed, (int64_t)memory->arena_next);
		registers_write(task->tid, &changed);
		memory->arena_next += bytes;
		go_on(task);
		return;
	}
	task->arena_bytes = bytes;
	registers_set_argument(&changed, 1, ARENA_PAGES * stops->huge_page_bytes);
	registers_set_argument(&changed, 3, registers_argument(&changed, 3) | MAP_NORESERVE);
	registers_write(task->tid, &changed);
	go_to_exit(task);
}

/*
 * V8 reserves its heap in chunks of 256 KiB, each at a random address that it
 * proposes: none would ever share a huge page.  Where nothing is proposed, the
 * kernel puts each next to the one before.
 */
static void at_mmap(const struct stops *stops, struct task *task)
{
	const uint64_t fixed = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_32BIT;
	struct registers changed = task->entry;
	uint64_t flags = registers_argument(&task->entry, 3);

	if (registers_argument(&task->entry, 0) != 0 &&
	    registers_argument(&task->entry, 1) < stops->huge_page_bytes &&
	    registers_argument(&task->entry, 2) == PROT_NONE && !(flags & fixed) &&
	    (flags & MAP_NORESERVE)) {
		registers_set_argument(&changed, 0, 0);
		registers_write(task->tid, &changed);
	}
	go_to_exit(task);
}

/* What else is to be known of the program, or nothing. */
static void note(struct stops *stops, struct task *task)
{
	long call = registers_call(&task->entry);

	if (call == SYS_ptrace) {
		stops->ptraced++;
	} else if (call == SYS_prctl && registers_argument(&task->entry, 0) == PR_SET_THP_DISABLE) {
		stops->disabled++;
	} else if (call == SYS_prctl || call == SYS_seccomp) {
		/* It may be killed for a madvise() that it would not have called. */
		stops->filtered++;
		task->memory->filtered = 1;
	}
}

int stop_at_call(struct stops *stops, struct task *task)
{
	if (registers_read(task->tid, &task->entry) < 0) {
		go_on(task);
		return 0;
	}
	switch (registers_call(&task->entry)) {
	case SYS_munmap:
		return 1;
	case SYS_brk:
		at_brk(stops, task);
		return 0;
	case SYS_mmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_set_tid_address:
		if (task->memory->filtered)
			go_on(task);
		else if (registers_call(&task->entry) != SYS_mmap)
			go_to_exit(task);
		else if (takes_from_arena(stops, task))
			at_small_mmap(stops, task);
		else
			at_mmap(stops, task);
		return 0;
	default:
		note(stops, task);
		go_on(task);
		return 0;
	}
}

/* Static arrays are there since execve(). */
static int request_bss(struct stops *stops, struct injection *injection)
{
	FILE *maps = vma_open(injection->tid);
	struct vma vma;
	int rc = 0;

	if (!maps)
		return 0;
	while (rc == 0 && vma_next(maps, &vma)) {
		if (!vma.anonymous || !vma.writable || vma.stack || vma.shared ||
		    vma.end - vma.start < LEAST_BYTES)
			continue;
		rc = request_huge(injection, vma.start, vma.end);
		stops->requests++;
	}
	fclose(maps);
	return rc;
}

/* Returns 0, or -1 with errno. */
static int copy_memory(pid_t pid, uint64_t from, uint64_t to, uint64_t bytes)
{
	static char buffer[1u << 20];

	for (uint64_t done = 0; done < bytes; done += sizeof(buffer)) {
		const size_t n = bytes - done < sizeof(buffer) ? bytes - done : sizeof(buffer);
		const struct iovec ours = { buffer, n };
		const struct iovec source = { (void *)(uintptr_t)(from + done), n };
		const struct iovec target = { (void *)(uintptr_t)(to + done), n };

		if (process_vm_readv(pid, &ours, 1, &source, 1, 0) != (ssize_t)n ||
		    process_vm_writev(pid, &ours, 1, &target, 1, 0) != (ssize_t)n)
			return -1;
	}
	return 0;
}

static int unmap(struct injection *injection, uint64_t start, uint64_t end)
{
	const uint64_t arguments[6] = { start, end - start };
	int64_t result;

	return start == end ? 0 : injection_call(injection, SYS_munmap, arguments, &result);
}

/*
 * The code [start, end), whole huge pages, becomes anonymous memory with the same content.  Each
 * huge page of it is made elsewhere and moved there at once: where a step fails the program has its
 * file as before.  Returns 1; 0 where it was refused; or -1 as above.
 */
static int replace_text(const struct stops *stops, struct injection *injection, uint64_t start,
			uint64_t end)
{
	const uint64_t size = stops->huge_page_bytes, bytes = end - start;
	const uint64_t map[6] = { 0, bytes + size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ull };
	int64_t made, result;
	uint64_t copy, done = 0;

	if (injection_call(injection, SYS_mmap, map, &made) < 0)
		return -1;
	if (made < 0 && made > -4096)
		return 0;
	copy = ((uint64_t)made + size - 1) / size * size;
	if (request_huge(injection, copy, copy + bytes) < 0)
		return -1;
	while (done < bytes && copy_memory(injection->tid, start + done, copy + done, size) == 0) {
		const uint64_t protect[6] = { copy + done, size, PROT_READ | PROT_EXEC };
		const uint64_t move[6] = { copy + done, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
					   start + done };

		if (injection_call(injection, SYS_mprotect, protect, &result) < 0)
			return -1;
		if (result == 0 && injection_call(injection, SYS_mremap, move, &result) < 0)
			return -1;
		if ((uint64_t)result != start + done)
			break;
		done += size;
	}
	if (unmap(injection, (uint64_t)made, copy) < 0 ||
	    unmap(injection, copy + done, (uint64_t)made + bytes + size) < 0)
		return -1;
	return done > 0;
}

/* The code of the program and of the libraries that are there. */
static int request_text(struct stops *stops, struct injection *injection)
{
	const uint64_t size = stops->huge_page_bytes;
	FILE *maps = vma_open(injection->tid);
	struct vma vma;
	int rc = 0;

	if (!maps)
		return 0;
	while (rc >= 0 && vma_next(maps, &vma)) {
		const uint64_t start = (vma.start + size - 1) / size * size;
		const uint64_t end = vma.end / size * size;

		if (!vma.executable || vma.writable || vma.shared || vma.anonymous || end <= start)
			continue;
		rc = replace_text(stops, injection, start, end);
		stops->requests += rc > 0;
	}
	fclose(maps);
	return rc < 0 ? -1 : 0;
}

/* After brk().  The program is to get *end. */
static int grown(struct stops *stops, struct injection *injection, struct task *task,
		 uint64_t argument, uint64_t result, uint64_t *end)
{
	struct memory *memory = task->memory;
	uint64_t wanted = registers_argument(&task->entry, 0);
	uint64_t before = memory->heap_end;

	if (!heap_exit(memory, wanted, argument, result, end)) {
		const uint64_t exactly[6] = { wanted };
		int64_t again;

		if (injection_call(injection, SYS_brk, exactly, &again) < 0)
			return -1;
		heap_exit(memory, wanted, wanted, (uint64_t)again, end);
	}
	if (!before || memory->heap_end <= before || memory->filtered)
		return 0;
	stops->requests++;
	/* The heap that was there before has asked, and its last page may be shared with bss. */
	return request_huge(injection, page_end(before), page_end(memory->heap_end));
}

/*
 * After mremap().  The area has asked before, but where it lies otherwise within
 * huge pages than it did, its huge pages were split.
 */
static int moved(const struct stops *stops, struct injection *injection,
		 const struct registers *entry, uint64_t start)
{
	uint64_t size = stops->huge_page_bytes;
	uint64_t before = registers_argument(entry, 0);
	uint64_t old_end = start + registers_argument(entry, 1);
	uint64_t end = start + registers_argument(entry, 2);
	uint64_t complete = (old_end + size - 1) / size * size;

	if (end <= old_end)
		return 0;
	if (start == before || start % size == before % size)
		return request_completed(injection, old_end, end, size);
	return request_collapse(injection, start, complete < end ? complete : end);
}

/* What the call that has just returned asks for. */
static int ask(struct stops *stops, struct injection *injection, struct task *task,
	       const struct registers *exit)
{
	const struct registers *entry = &task->entry;
	int64_t result = registers_result(exit);
	uint64_t start, end;
	int rc;

	/* The C library calls it when the libraries that the program names are there. */
	if (stops->text && !task->memory->filtered &&
	    (task->memory->fresh || registers_call(exit) == SYS_set_tid_address) &&
	    request_text(stops, injection) < 0)
		return -1;
	if (task->memory->fresh && !task->memory->filtered) {
		task->memory->fresh = 0;
		if (request_bss(stops, injection) < 0)
			return -1;
	}
	switch (registers_call(exit)) {
	case SYS_brk:
		if (grown(stops, injection, task, registers_argument(exit, 0), (uint64_t)result,
			  &end) < 0)
			return -1;
		registers_set_result(&injection->saved, (int64_t)end);
		return 0;
	case SYS_mmap:
		start = (uint64_t)result;
		if (!task->arena_bytes)
			break;
		task->memory->arena_next = start + task->arena_bytes;
		task->memory->arena_end = start + ARENA_PAGES * stops->huge_page_bytes;
		stops->requests++;
		return request_huge(injection, start, task->memory->arena_end);
	case SYS_mremap:
		return moved(stops, injection, entry, (uint64_t)result);
	case SYS_mprotect:
		start = registers_argument(entry, 0);
		break;
	default:
		return 0;
	}
	end = start + page_end(registers_argument(entry, 1));
	/* A small one asks when it completes a huge page with its neighbours: it may be one of many. */
	if (registers_call(exit) == SYS_mmap && end - start >= stops->huge_page_bytes) {
		stops->requests++;
		if (request_huge(injection, start, end) < 0)
			return -1;
	}
	rc = request_completed(injection, start, end, stops->huge_page_bytes);
	stops->requests += rc > 0 ? (unsigned)rc : 0u;
	return rc;
}

int stop_after_call(struct stops *stops, struct task *task, int *status)
{
	struct injection injection = { .ended = 0 };
	struct registers exit, restored;
	int64_t result;

	task->state = TASK_RUNNING;
	if (registers_read(task->tid, &exit) < 0) {
		go_on(task);
		return 0;
	}
	result = registers_result(&exit);
	restored = exit;
	/* The kernel changes no argument, and programs count on it. */
	for (unsigned i = 0; i < 4; i++)
		registers_set_argument(&restored, i, registers_argument(&task->entry, i));
	if (task->arena_bytes && result > -4096 && result < 0) {
		task->arena_bytes = 0;
		task->memory->arena_refused = 1;
		restored = task->entry;
		registers_repeat(&restored);
		registers_write(task->tid, &restored);
		go_on(task);
		return 0;
	}
	if ((result > -4096 && result < 0) ||
	    injection_begin(&injection, task->tid, &restored) < 0) {
		go_on(task);
		return 0;
	}
	if (ask(stops, &injection, task, &exit) < 0 && injection.ended) {
		*status = injection.status;
		return 1;
	}
	task->arena_bytes = 0;
	injection_end(&injection);
	go_on(task);
	return 0;
}
