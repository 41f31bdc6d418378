/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "placement.h"

#define FIRST_COUNTS ((size_t)1 << 14)	/* a power of two */
#define FIRST_TOUCHES ((size_t)1 << 12)
/* Page-table entries have their own lines, above any user address. */
#define PAGE_TABLES (UINT64_C(1) << 60)
#define ENTRY_SHIFT 3u			/* bytes of a page-table entry, log2 */
#define NO_LINE UINT64_MAX

void placement_init(struct placement *placement)
{
	const struct placement_config *config = &placement->config;

	placement->failed = false;
	placement->interval = 0;
	placement->l2_misses = placement->walk_l2_misses = 0;
	placement->touch_count = placement->used = 0;
	placement->last = NULL;
	placement->capacity = FIRST_COUNTS;
	placement->touch_capacity = FIRST_TOUCHES;
	placement->counts = placement->allocate(FIRST_COUNTS *
						sizeof(*placement->counts));
	placement->touches = placement->allocate(FIRST_TOUCHES *
						 sizeof(*placement->touches));
	if (!placement->counts || !placement->touches || !config->most_counts)
		placement->failed = true;
}

static void release(const struct placement *placement, void *memory)
{
	if (memory)
		placement->release(memory);
}

void placement_reset(struct placement *placement)
{
	release(placement, placement->counts);
	release(placement, placement->touches);
	placement_init(placement);
}

struct placement_thread *placement_thread_new(const struct placement *placement,
					      uint32_t number)
{
	const struct placement_config *config = &placement->config;
	size_t l2 = cache_lines(config->l2_bytes);
	size_t lines = l2 + cache_lines(config->l3_bytes);
	struct placement_thread *thread =
		placement->allocate(sizeof(*thread) +
				    lines * sizeof(struct cache_line));
	struct cache_line *memory;

	if (!thread)
		return NULL;
	memory = (struct cache_line *)(void *)(thread + 1);
	thread->number = number;
	for (uint32_t i = 0; i < PLACEMENT_FILTER_LINES; i++)
		thread->filter[i] = NO_LINE;
	cache_init(&thread->l2, config->l2_bytes, config->l2_ways, memory);
	cache_init(&thread->l3, config->l3_bytes,
		   config->l3_bytes ? config->l3_ways : 0, memory + l2);
	return thread;
}

void placement_thread_free(const struct placement *placement,
			   struct placement_thread *thread)
{
	release(placement, thread);
}

/* The entry of this key, or the free slot where it belongs. */
static struct placement_count *find(struct placement_count *counts,
				    size_t capacity, uint64_t key)
{
	/* Fibonacci hashing: neighbouring pages spread over the table. */
	size_t slot = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 24);

	for (;; slot++) {
		struct placement_count *entry = &counts[slot & (capacity - 1)];

		if (entry->key == key || entry->key == 0)
			return entry;
	}
}

static int grow(struct placement *placement)
{
	size_t capacity = 2 * placement->capacity;
	struct placement_count *counts;

	counts = placement->allocate(capacity * sizeof(*counts));
	if (!counts)
		return -1;
	for (size_t i = 0; i < placement->capacity; i++) {
		const struct placement_count *from = &placement->counts[i];

		if (from->key)
			*find(counts, capacity, from->key) = *from;
	}
	placement->release(placement->counts);
	placement->counts = counts;
	placement->capacity = capacity;
	return 0;
}

/* The entry of a thread and the page of a line; NULL if memory ran out. */
static struct placement_count *entry_of(struct placement *placement,
					uint32_t thread, uint64_t line)
{
	uint64_t page = line >> (placement->config.base_shift - LINE_SHIFT);
	uint64_t key = page << 16 | thread;
	struct placement_count *entry = placement->last;

	if (placement->failed)
		return NULL;
	if (entry && entry->key == key)
		return entry;
	entry = find(placement->counts, placement->capacity, key);
	if (!entry->key) {
		/* At most half full, so searches are short. */
		if (placement->used == placement->config.most_counts ||
		    (2 * placement->used >= placement->capacity &&
		     grow(placement) != 0)) {
			placement->failed = true;
			return NULL;
		}
		entry = find(placement->counts, placement->capacity, key);
		entry->key = key;
		placement->used++;
	}
	placement->last = entry;
	return entry;
}

enum found { IN_L2, IN_L3, IN_MEMORY };

static enum found look_up(struct placement_thread *thread, uint64_t line)
{
	enum found found = IN_MEMORY;

	if (cache_find(&thread->l2, line))
		return IN_L2;
	if (thread->l3.sets) {
		if (cache_find(&thread->l3, line))
			found = IN_L3;
		else
			cache_insert(&thread->l3, line, 0);
	}
	cache_insert(&thread->l2, line, 0);
	return found;
}

static void access_line(struct placement *placement,
			struct placement_thread *thread, uint64_t line,
			bool store, bool counting)
{
	uint64_t *slot = &thread->filter[line % PLACEMENT_FILTER_LINES];
	struct placement_count *entry;
	bool there = *slot >> 1 == line;
	enum found found = IN_L2;

	if (there && (!store || (*slot & 1)))
		return;
	if (!there)
		found = look_up(thread, line);
	/* A store to a line that was only read so far: the page is written. */
	*slot = line << 1 | (uint64_t)store;
	if (!counting)
		return;
	placement->l2_misses += found != IN_L2;
	if (found != IN_MEMORY && !store)
		return;
	entry = entry_of(placement, thread->number, line);
	if (!entry)
		return;
	if (found == IN_MEMORY && entry->accesses[placement->interval] < UINT32_MAX)
		entry->accesses[placement->interval]++;
	if (store)
		entry->written |= (uint8_t)(1u << placement->interval);
}

void placement_access(struct placement *placement,
		      struct placement_thread *thread, uint64_t address,
		      uint32_t size, bool store, bool counting)
{
	uint64_t last = (address + size - 1) >> LINE_SHIFT;

	for (uint64_t line = address >> LINE_SHIFT; line <= last; line++)
		access_line(placement, thread, line, store, counting);
}

void placement_walk(struct placement *placement,
		    struct placement_thread *thread, uint64_t address,
		    bool counting)
{
	uint64_t entry = (address >> placement->config.base_shift) << ENTRY_SHIFT;
	enum found found = look_up(thread, (PAGE_TABLES | entry) >> LINE_SHIFT);

	if (counting && found != IN_L2) {
		placement->l2_misses++;
		placement->walk_l2_misses++;
	}
}

void placement_touched(struct placement *placement, uint32_t thread,
		       uint64_t address, enum placement_kind kind)
{
	if (placement->failed)
		return;
	if (placement->touch_count == placement->touch_capacity) {
		size_t capacity = 2 * placement->touch_capacity;
		struct placement_touch *touches = NULL;

		if (placement->touch_count < placement->config.most_touches)
			touches = placement->allocate(capacity * sizeof(*touches));
		if (!touches) {
			placement->failed = true;
			return;
		}
		for (size_t i = 0; i < placement->touch_count; i++)
			touches[i] = placement->touches[i];
		placement->release(placement->touches);
		placement->touches = touches;
		placement->touch_capacity = capacity;
	}
	placement->touches[placement->touch_count++] = (struct placement_touch){
		.page = address >> placement->config.base_shift,
		.thread = (uint16_t)thread,
		.kind = (uint16_t)kind,
	};
}

static void fold(struct placement_count *entry)
{
	uint8_t written = 0;

	for (uint32_t i = 0; i < PLACEMENT_INTERVALS / 2; i++) {
		uint64_t both = (uint64_t)entry->accesses[2 * i] +
				entry->accesses[2 * i + 1];

		entry->accesses[i] = both > UINT32_MAX ? UINT32_MAX :
							 (uint32_t)both;
		if ((unsigned)entry->written >> 2 * i & 3u)
			written |= (uint8_t)(1u << i);
	}
	for (uint32_t i = PLACEMENT_INTERVALS / 2; i < PLACEMENT_INTERVALS; i++)
		entry->accesses[i] = 0;
	entry->written = written;
}

bool placement_next_interval(struct placement *placement)
{
	if (++placement->interval < PLACEMENT_INTERVALS)
		return false;
	placement->interval = PLACEMENT_INTERVALS / 2;
	for (size_t i = 0; placement->counts && i < placement->capacity; i++)
		if (placement->counts[i].key)
			fold(&placement->counts[i]);
	return true;
}
