// SPDX-License-Identifier: GPL-2.0-or-later
#include "sites.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PLACE (UINT64_C(2) << 20)
#define MOST_KEYS 4096u
/* Live allocations that are in the file: their end is looked for here.  Lost where too many meet. */
#define LIVE (1u << 16)
#define PROBES 8u
/* Planned small allocations that were sampled, by place; two of them that meet are taken for one. */
#define PLACES (1u << 16)
#define HALF ((uint32_t)(PLACE / SITES_EVERY / 2))
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25	/* Linux 6.1; others refuse it */
#endif
/* Rows that the file grows by. */
#define GROWTH 1024u

/* Not malloc's, which the dynamic linker would call for it. */
#define FAST __attribute__((tls_model("initial-exec")))

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_memalign)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);

static char folder[4096];
static struct sites_file *_Atomic file;
static atomic_bool opened, growing;
static _Atomic uint64_t room;		/* rows that the file has room for */
static char path[sizeof(folder) + 32];
static _Atomic uint64_t live[LIVE];
static uint64_t plan[MOST_KEYS];
static size_t planned;
static _Atomic uint32_t samples[PLACES];
static uintptr_t own_start;
static char program[SITES_NAME];	/* its path; the dynamic linker has only argv[0] */
static bool ready;

static _Thread_local FAST bool inside;
static _Thread_local FAST int64_t left;
static _Thread_local FAST uint64_t random_state;

/* What dlsym() allocates before there is a malloc. */
static char early[4096];
static size_t early_used;

/* ISO C has no conversion of one to the other. */
#define NEXT(name) (*(void **)&next_##name = dlsym(RTLD_NEXT, #name))

static void find_next(void)
{
	if (next_malloc || inside)
		return;
	inside = true;
	NEXT(calloc);
	NEXT(realloc);
	NEXT(free);
	NEXT(memalign);
	NEXT(posix_memalign);
	NEXT(aligned_alloc);
	NEXT(mmap);
	NEXT(malloc);
	inside = false;
}

static void *early_block(size_t bytes)
{
	size_t used = (early_used + 15) & ~(size_t)15;

	if (bytes > sizeof(early) - used)
		return NULL;
	early_used = used + bytes;
	return early + used;
}

static bool is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static size_t early_after(const void *block)
{
	return (size_t)(early + sizeof(early) - (const char *)block);
}

/*
 * Room for more rows.  What the file does not have yet is mapped already, and must not be written:
 * on a full disk the kernel would send a signal.
 */
static bool grow(void)
{
	const size_t bytes = offsetof(struct sites_file, rows) +
			     (room + GROWTH) * sizeof(struct sites_row);
	struct rlimit limit;
	void *mapped = file;
	bool grown;
	int fd;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur < bytes)
		return false;
	/* Once: a child by vfork() has our memory and another number. */
	if (!room)
		snprintf(path, sizeof(path), "%s/sites.%d", folder, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | (room ? 0 : O_TRUNC) | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	grown = posix_fallocate(fd, 0, (off_t)bytes) == 0;
	if (grown && !mapped) {
		mapped = next_mmap(NULL, sizeof(struct sites_file), PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0);
		grown = mapped != MAP_FAILED;
	}
	close(fd);
	if (!grown)
		return false;
	room += GROWTH;
	if (!file) {
		((struct sites_file *)mapped)->magic = SITES_MAGIC;
		/* Last: other threads write rows from here on. */
		file = mapped;
	}
	return true;
}

/* The file of this process; NULL: another thread makes it, or nothing is recorded. */
static struct sites_file *file_of_process(void)
{
	if (folder[0] && !atomic_exchange(&opened, true))
		grow();
	return file;
}

/* A child's memory is its own from now on. */
static void begin_child(void)
{
	if (file)
		munmap(file, sizeof(*file));
	memset(live, 0, sizeof(live));
	file = NULL;
	room = 0;
	opened = growing = false;
}

static void read_plan(void)
{
	const char *at = getenv("TLBCOST_SITES_PLAN");
	char *end;

	while (at && *at && planned < MOST_KEYS) {
		plan[planned] = strtoull(at, &end, 16);
		if (end == at)
			break;
		planned++;
		at = *end == ',' ? end + 1 : end;
	}
}

__attribute__((constructor)) static void begin(void)
{
	const char *wanted = getenv("TLBCOST_SITES");
	void *frame;
	Dl_info info;

	find_next();
	/* What launches and follows the program has its environment. */
	if (!strncmp(program_invocation_short_name, "tlbcost-", 8))
		return;
	inside = true;
	/* The unwinder is loaded, and allocates, when it is first used. */
	backtrace(&frame, 1);
	if (dladdr(early, &info))
		own_start = (uintptr_t)info.dli_fbase;
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		program[0] = '\0';
	read_plan();
	if (wanted && strlen(wanted) < sizeof(folder)) {
		strcpy(folder, wanted);
		pthread_atfork(NULL, NULL, begin_child);
	}
	ready = folder[0] || planned;
	inside = false;
}

/* A number for the object's path, from 1 on; 0: there are too many, or its name is too long. */
static uint64_t object_number(struct sites_file *to, const char *name)
{
	uint64_t i, count = to->objects;

	for (i = 0; i < count && i < SITES_OBJECTS; i++)
		if (!strncmp(to->names[i], name, SITES_NAME))
			return i + 1;
	if (count >= SITES_OBJECTS || strlen(name) >= SITES_NAME)
		return 0;
	/* Two threads may number one object twice: no harm. */
	i = __atomic_fetch_add(&to->objects, 1, __ATOMIC_RELAXED);
	if (i >= SITES_OBJECTS)
		return 0;
	strcpy(to->names[i], name);
	return i + 1;
}

static uint64_t mixed(uint64_t key, uint64_t value)
{
	return (key ^ value) * UINT64_C(0x100000001b3);
}

static uint64_t mixed_name(uint64_t key, const char *name)
{
	const char *base = strrchr(name, '/');

	for (base = base ? base + 1 : name; *base; base++)
		key = mixed(key, (unsigned char)*base);
	return key;
}

/* The call stack's key.  With a file its frames, too. */
static uint64_t site(struct sites_file *to, uint64_t *frames)
{
	void *stack[SITES_FRAMES + 8];
	int depth = backtrace(stack, (int)(sizeof(stack) / sizeof(stack[0])));
	uint64_t key = UINT64_C(0xcbf29ce484222325);
	unsigned n = 0;

	for (int i = 0; i < depth && n < SITES_FRAMES; i++) {
		uint64_t object = 0, offset = (uintptr_t)stack[i];
		Dl_info info;

		if (dladdr(stack[i], &info) && info.dli_fname) {
			const char *name = *info.dli_fname == '/' ? info.dli_fname : program;

			offset -= (uintptr_t)info.dli_fbase;
			object = to ? object_number(to, name) : 0;
			if ((uintptr_t)info.dli_fbase == own_start) {
				/* Of ours the outermost is kept: malloc, mmap, ... */
				if (to)
					frames[0] = object << 56 | offset;
				n = 1;
				continue;
			}
			key = mixed_name(key, name);
		} else {
			/* Of generated code only the depth stays the same. */
			offset = 0;
		}
		key = mixed(key, offset);
		if (to)
			frames[n] = object << 56 | (offset & ((UINT64_C(1) << 56) - 1));
		n++;
	}
	return key;
}

static bool is_planned(uint64_t key)
{
	for (size_t i = 0; i < planned; i++)
		if (plan[i] == key)
			return true;
	return false;
}

static void advise(uintptr_t address, uint64_t bytes)
{
	const uintptr_t page = 4096;
	uintptr_t start = (address + page - 1) & ~(page - 1);
	uintptr_t end = (address + bytes) & ~(page - 1);

	if (end > start)
		madvise((void *)start, end - start, MADV_HUGEPAGE);
}

static _Atomic uint32_t *samples_of(uintptr_t place)
{
	return &samples[place / PLACE % PLACES];
}

/*
 * Only of places that are mapped whole: a mapping that was advised in part, and touched since, is
 * two for ever.
 */
static void collapse(uintptr_t place)
{
	unsigned char resident[PLACE / 4096];

	if (atomic_load(samples_of(place)) < HALF || mincore((void *)place, PLACE, resident) < 0)
		return;
	madvise((void *)place, PLACE, MADV_HUGEPAGE);
	madvise((void *)place, PLACE, MADV_COLLAPSE);
}

/*
 * Small blocks' place has base pages already, and a heap grows by less than a place: it is copied
 * to a huge page once half of it is planned, or when the next place is begun.
 */
static void advise_place(uintptr_t address)
{
	const uintptr_t place = address & ~(PLACE - 1);
	const uint32_t n = atomic_fetch_add(samples_of(place), 1) + 1;

	if (n == 1)
		collapse(place - PLACE);
	else if (n == HALF)
		collapse(place);
}

static _Atomic uint64_t *live_at(uint64_t address, uint64_t wanted)
{
	const uint64_t hash = (address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48;

	for (unsigned i = 0; i < PROBES; i++) {
		_Atomic uint64_t *slot = &live[(hash + i) % LIVE];

		if (atomic_load_explicit(slot, memory_order_relaxed) == wanted)
			return slot;
	}
	return NULL;
}

static struct sites_row *new_row(struct sites_file *to)
{
	uint64_t i = __atomic_fetch_add(&to->count, 1, __ATOMIC_RELAXED);

	/* Another thread's growth, or one that failed, loses this row. */
	if (i >= room && (i >= SITES_ROWS || atomic_exchange(&growing, true)))
		return NULL;
	if (i >= room) {
		if (!grow())
			return NULL;
		growing = false;
	}
	return i < room ? &to->rows[i] : NULL;
}

/* To the next sample; SITES_EVERY on average. */
static int64_t next_distance(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (int64_t)(random_state % (2 * SITES_EVERY));
}

/* The bytes that an allocation stands for; 0: it is not sampled. */
static uint64_t weight_of(uint64_t bytes)
{
	if (bytes >= SITES_LARGE)
		return bytes;
	if (bytes >= SITES_ADVISED)
		left -= (int64_t)bytes;
	if (left > 0)
		return 0;
	if (!random_state) {
		/* A thread's address; its first sample is as far away as any. */
		random_state = (uintptr_t)&left | 1;
		left = next_distance();
		return 0;
	}
	left = next_distance();
	return bytes > SITES_EVERY ? bytes : SITES_EVERY;
}

/* Not inlined: the next frame is to be that of malloc. */
__attribute__((noinline)) static void record(void *block, uint64_t bytes)
{
	const int kept = errno;
	struct sites_file *to;
	uint64_t weight;

	if (!ready || inside || !block)
		return;
	weight = weight_of(bytes);
	if (!weight && (!planned || bytes < SITES_ADVISED))
		return;
	inside = true;
	if (planned && is_planned(site(NULL, NULL))) {
		if (bytes >= SITES_ADVISED)
			advise((uintptr_t)block, bytes);
		else
			advise_place((uintptr_t)block);
	}
	to = weight ? file_of_process() : NULL;
	if (to) {
		_Atomic uint64_t *slot = live_at((uintptr_t)block, 0);
		struct sites_row *row = slot ? new_row(to) : NULL;

		if (row) {
			row->key = site(to, row->frames);
			row->bytes = bytes;
			row->weight = weight;
			row->address = (uintptr_t)block;
			atomic_store_explicit(slot, (uintptr_t)block, memory_order_relaxed);
		}
	}
	inside = false;
	errno = kept;
}

/* Most allocations are small, and between two samples. */
static inline bool is_between(uint64_t bytes)
{
	return bytes < SITES_ADVISED && (left -= (int64_t)bytes) > 0;
}

static void forget(void *block)
{
	struct sites_file *to = file;
	_Atomic uint64_t *slot;
	struct sites_row *row;

	if (!to || inside || !block)
		return;
	slot = live_at((uintptr_t)block, (uintptr_t)block);
	if (!slot)
		return;
	atomic_store_explicit(slot, 0, memory_order_relaxed);
	row = new_row(to);
	if (row)
		row->address = (uintptr_t)block;
}

void *malloc(size_t bytes)
{
	void *block;

	if (!next_malloc) {
		if (inside)
			return early_block(bytes);
		find_next();
	}
	block = next_malloc(bytes);
	if (!is_between(bytes))
		record(block, bytes);
	return block;
}

void *calloc(size_t number, size_t bytes)
{
	void *block;

	if (!next_calloc) {
		/* It is zero, and used once. */
		if (inside)
			return early_block(number * bytes);
		find_next();
	}
	block = next_calloc(number, bytes);
	if (!is_between(number * bytes))
		record(block, number * bytes);
	return block;
}

void *realloc(void *old, size_t bytes)
{
	void *block;

	find_next();
	if (is_early(old)) {
		block = malloc(bytes);
		if (block)
			memcpy(block, old, bytes < early_after(old) ? bytes : early_after(old));
		return block;
	}
	/* If it fails the old block stays, unrecorded. */
	forget(old);
	block = next_realloc(old, bytes);
	if (!is_between(bytes))
		record(block, bytes);
	return block;
}

void free(void *block)
{
	if (is_early(block))
		return;
	if (!next_free)
		find_next();
	forget(block);
	next_free(block);
}

void *memalign(size_t alignment, size_t bytes)
{
	void *block;

	find_next();
	block = next_memalign(alignment, bytes);
	if (!is_between(bytes))
		record(block, bytes);
	return block;
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
	int rc;

	find_next();
	rc = next_posix_memalign(block, alignment, bytes);
	if (!rc && !is_between(bytes))
		record(*block, bytes);
	return rc;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *block;

	find_next();
	block = next_aligned_alloc(alignment, bytes);
	if (!is_between(bytes))
		record(block, bytes);
	return block;
}

/* The program's own, and its allocator's if that is not the C library's. */
void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *block;

	find_next();
	block = next_mmap(address, bytes, protection, flags, fd, offset);
	if (block != MAP_FAILED && flags & MAP_ANONYMOUS && flags & MAP_PRIVATE &&
	    bytes >= SITES_LARGE && !(flags & (MAP_STACK | MAP_NORESERVE)))
		record(block, bytes);
	return block;
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));
