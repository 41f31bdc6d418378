/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "translation.h"

/* Eight entries of a page table share a line. */
#define ENTRIES_SHIFT 3u
/* A table has 512 entries. */
#define FANOUT_SHIFT 9u

/* Where tables lie, beyond any line of data: only distances matter. */
enum table {
	GUEST_TABLE = 1, GUEST_DIRECTORY, HOST_TABLE, HOST_DIRECTORY,
	TABLES_TABLE, GUEST_POINTERS, GUEST_ROOT,
};
#define TABLE_SHIFT 58u

/* Shifts of what an entry covers: 1 GiB, 512 GiB, and all that there is. */
#define POINTER_SHIFT 30u
#define ROOT_SHIFT 39u
#define ALL_SHIFT 48u

static void directories_init(struct directories *directories, uint32_t count,
			     uint32_t ways)
{
	if (!ways || ways > count || count % ways)
		ways = count;
	directories->ways = ways;
	directories->sets = ways ? count / ways : 0;
	for (uint32_t i = 0; i < MOST_DIRECTORIES; i++)
		directories->entry[i] = UINT64_MAX;
}

void translation_init(struct translation *translation,
		      const struct timing_config *config,
		      struct memory *memory, uint32_t base_shift,
		      uint32_t huge_shift, bool huge)
{
	uint32_t shift = huge ? huge_shift : base_shift;

	translation->config = config;
	translation->memory = memory;
	calendar_init(&translation->walkers, config->walkers);
	for (uint32_t i = 0; i < TRANSLATION_SLOTS; i++)
		translation->slots[i] =
			(struct translation_slot){ UINT64_MAX, 0, MISS_NONE };
	directories_init(&translation->guest, config->directories,
			 config->directory_ways);
	directories_init(&translation->host, config->directories, 0);
	directories_init(&translation->tables, config->directories, 0);
	directories_init(&translation->pointers, config->pointers, 0);
	directories_init(&translation->roots, config->roots, 0);
	translation->page_shift = shift;
	translation->entry_shift = shift;
	translation->huge = huge;
	translation->scattered_share = 0;
	if (config->host_shift && config->host_shift < shift)
		translation->entry_shift = config->host_shift;
}

static struct translation_slot *slot_of(struct translation *translation,
					uint64_t page)
{
	return &translation->slots[page % TRANSLATION_SLOTS];
}

void translation_missed(struct translation *translation, uint64_t address,
			enum miss miss)
{
	uint64_t page = address >> translation->entry_shift;

	*slot_of(translation, page) = (struct translation_slot){ page, 0, miss };
}

/* Is the entry cached?  It is afterwards. */
static bool directory_known(struct directories *directories, uint64_t entry)
{
	uint64_t carried = entry, *set = directories->entry;

	if (directories->ways)
		set += entry % directories->sets * directories->ways;
	for (uint32_t i = 0; i < directories->ways; i++) {
		uint64_t here = set[i];

		set[i] = carried;
		if (here == entry)
			return true;
		carried = here;
	}
	return false;
}

static ticks read_entry(struct translation *translation, enum table table,
			uint64_t index, ticks time)
{
	uint64_t line = (uint64_t)table << TABLE_SHIFT | index >> ENTRIES_SHIFT;

	/* Tables are pages anywhere in memory, if the data are not. */
	if (translation->config->pointers && !translation->memory->scattered)
		line = (uint64_t)table << TABLE_SHIFT |
		       (index >> FANOUT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >>
				       12 << 6 |
		       (index >> ENTRIES_SHIFT & 63);
	time += (ticks)translation->config->read_cycles[translation->huge] *
		TICKS_PER_CYCLE;
	return memory_read(translation->memory, line, time, LINE_TABLE);
}

/*
 * Where a page of the guest's address space is in the guest's memory.  Kernels
 * hand out what is left between other memory first.
 */
static uint64_t frame_of(const struct translation *translation, uint64_t page)
{
	uint64_t random = page * UINT64_C(0x9e3779b97f4a7c15);

	if (translation->huge || random >> 32 >= translation->scattered_share)
		return page;
	return random >> 16 | UINT64_C(1) << 48;
}

/* The host's translation of the data page. */
static ticks read_host(struct translation *translation, uint64_t address,
		       ticks time)
{
	const uint32_t shift = translation->config->host_shift;
	uint64_t directory = address >> (shift + FANOUT_SHIFT);

	if (!directory_known(&translation->host, directory))
		time = read_entry(translation, HOST_DIRECTORY, directory, time);
	return read_entry(translation, HOST_TABLE,
			  frame_of(translation, address >> shift), time);
}

/*
 * What a walk reads before the entry of the page itself, from the first level
 * that no cache has; entries there cover 1 << shift bytes.
 */
static ticks read_above(struct translation *translation, uint64_t address,
			uint32_t shift, ticks time)
{
	struct directories *known = &translation->guest;
	enum table table = GUEST_DIRECTORY;

	if (shift >= ALL_SHIFT)
		return time;
	if (shift >= POINTER_SHIFT) {
		known = shift < ROOT_SHIFT ? &translation->pointers
					   : &translation->roots;
		table = shift < ROOT_SHIFT ? GUEST_POINTERS : GUEST_ROOT;
	}
	if (directory_known(known, address >> shift))
		return time;
	time = read_above(translation, address, shift + FANOUT_SHIFT, time);
	return read_entry(translation, table, address >> shift, time);
}

/* The time at which a walk that starts now would end. */
static ticks walk(struct translation *translation, uint64_t address, ticks time)
{
	const struct timing_config *config = translation->config;
	const uint32_t shift = translation->page_shift;
	uint64_t directory = address >> (shift + FANOUT_SHIFT);

	if (config->pointers) {
		time = read_above(translation, address, shift + FANOUT_SHIFT, time);
	} else if (!directory_known(&translation->guest, directory)) {
		time = read_entry(translation, GUEST_DIRECTORY, directory, time);
		/* A table is a page of the guest's, anywhere in its memory. */
		if (config->host_shift &&
		    !directory_known(&translation->tables, directory))
			time = read_entry(translation, TABLES_TABLE,
					  directory << ENTRIES_SHIFT, time);
	}
	time = read_entry(translation, GUEST_TABLE, address >> shift, time);
	if (config->host_shift)
		time = read_host(translation, address, time);
	return time;
}

ticks translate(struct translation *translation, uint64_t address, ticks time)
{
	uint64_t page = address >> translation->entry_shift;
	struct translation_slot *slot = slot_of(translation, page);
	enum miss miss = slot->miss;
	const struct timing_config *config = translation->config;
	ticks end, busy;

	if (slot->page != page)
		return time;
	if (miss == MISS_NONE)
		return slot->ready > time ? slot->ready : time;
	time += (ticks)config->stlb_cycles * TICKS_PER_CYCLE;
	if (miss == MISS_WALK) {
		busy = (ticks)config->walk_cycles[translation->huge] *
		       TICKS_PER_CYCLE;
		end = walk(translation, address, time) + busy;
		end = calendar_take(&translation->walkers, time, end - time);
		time = end - busy;
	}
	slot->ready = time;
	slot->miss = MISS_NONE;
	return time;
}
