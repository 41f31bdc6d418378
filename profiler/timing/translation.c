/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "translation.h"

/* Eight entries of a page table share a line. */
#define ENTRIES_SHIFT 3u
/* A table has 512 entries. */
#define FANOUT_SHIFT 9u

/* Where tables are, beyond any line of data: only distances matter. */
enum table {
	GUEST_TABLE = 1, GUEST_DIRECTORY, HOST_TABLE, HOST_DIRECTORY,
	TABLES_TABLE, GUEST_POINTERS, GUEST_ROOT,
};
#define TABLE_SHIFT 58u

/* Shifts of what an entry covers: 1 GiB, 512 GiB, and everything. */
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
			(struct translation_slot){ .page = UINT64_MAX };
	directories_init(&translation->guest, config->directories,
			 config->directory_ways);
	directories_init(&translation->host, config->directories,
			 config->directory_ways);
	directories_init(&translation->tables, config->directories,
			 config->directory_ways);
	directories_init(&translation->pointers, config->pointers, 0);
	directories_init(&translation->roots, config->roots, 0);
	translation->base_shift = base_shift;
	translation->huge_shift = huge_shift;
	translation->page_shift = shift;
	translation->entry_shift = shift;
	translation->huge = huge;
	translation->isolated_share = 0;
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

	*slot_of(translation, page) = (struct translation_slot){
		.page = page, .miss = miss,
	};
}

void translation_walked(struct translation *translation, uint64_t address,
			const struct walk_ages *ages)
{
	uint64_t page = address >> translation->entry_shift;

	*slot_of(translation, page) = (struct translation_slot){
		.page = page, .miss = MISS_WALK, .aged = true, .ages = *ages,
	};
}


/*
 * Time since the line of an entry that covers 1 << shift bytes was read.  Entries that cover
 * more than a huge page were read recently.
 */
static uint64_t line_age(const struct translation *translation,
			 const struct walk_ages *ages, uint32_t shift)
{
	if (shift < translation->base_shift + ENTRIES_SHIFT)
		return ages->base.line;
	return shift <= translation->huge_shift ? ages->huge.line : 0;
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

/* A walk in progress. */
struct walk {
	uint64_t address;
	const struct walk_ages *ages;	/* NULL: not known */
	ticks time;			/* at which it continues */
};

/* Read an entry whose line was last read N references ago, if ages are known. */
static void read_entry(struct translation *translation, struct walk *walk,
		       enum table table, uint64_t index, uint64_t age)
{
	uint64_t line = (uint64_t)table << TABLE_SHIFT | index >> ENTRIES_SHIFT;

	/* Tables are scattered in memory, even if the data are not. */
	if (translation->config->pointers && !translation->memory->hashed_frames)
		line = (uint64_t)table << TABLE_SHIFT |
		       (index >> FANOUT_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >>
				       12 << 6 |
		       (index >> ENTRIES_SHIFT & 63);
	walk->time += (ticks)translation->config->read_cycles[translation->huge] *
		      TICKS_PER_CYCLE;
	walk->time = walk->ages ?
			     memory_read_table(translation->memory, line,
					       walk->time, age) :
			     memory_read(translation->memory, line, walk->time,
					 LINE_TABLE);
}

static uint64_t age_at(const struct translation *translation,
		       const struct walk *walk, uint32_t shift)
{
	return walk->ages ? line_age(translation, walk->ages, shift) : 0;
}

/*
 * Is a guest page's frame isolated in the guest's memory?  Kernels hand out fragments between
 * other memory first.
 */
static bool lies_alone(const struct translation *translation, uint64_t random)
{
	return !translation->huge && random >> 32 < translation->isolated_share;
}

/* The host's translation of the data page. */
static void read_host(struct translation *translation, struct walk *walk)
{
	const uint32_t shift = translation->config->host_shift;
	const uint64_t page = walk->address >> shift;
	const uint64_t random = page * UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t directory = page >> FANOUT_SHIFT;

	if (!directory_known(&translation->host, directory))
		read_entry(translation, walk, HOST_DIRECTORY, directory,
			   age_at(translation, walk, shift + FANOUT_SHIFT));
	if (lies_alone(translation, random))
		read_entry(translation, walk, HOST_TABLE,
			   random >> 16 | UINT64_C(1) << 48,
			   walk->ages ? walk->ages->base.page : 0);
	else
		read_entry(translation, walk, HOST_TABLE, page,
			   age_at(translation, walk, shift));
}

/*
 * What a walk reads before the entry of the page itself, from the first uncached level on;
 * entries there cover 1 << shift bytes.
 */
static void read_above(struct translation *translation, struct walk *walk,
		       uint32_t shift)
{
	struct directories *known = &translation->guest;
	enum table table = GUEST_DIRECTORY;
	uint64_t entry = walk->address >> shift;

	if (shift >= ALL_SHIFT)
		return;
	if (shift >= POINTER_SHIFT) {
		known = shift < ROOT_SHIFT ? &translation->pointers
					   : &translation->roots;
		table = shift < ROOT_SHIFT ? GUEST_POINTERS : GUEST_ROOT;
	}
	if (directory_known(known, entry))
		return;
	read_above(translation, walk, shift + FANOUT_SHIFT);
	read_entry(translation, walk, table, entry,
		   age_at(translation, walk, shift));
}

static void read_directory(struct translation *translation, struct walk *walk,
			   uint32_t shift)
{
	const uint64_t directory = walk->address >> shift;

	if (directory_known(&translation->guest, directory))
		return;
	read_entry(translation, walk, GUEST_DIRECTORY, directory,
		   age_at(translation, walk, shift));
	/* A table is a guest page, anywhere in its memory. */
	if (translation->config->host_shift &&
	    !directory_known(&translation->tables, directory))
		read_entry(translation, walk, TABLES_TABLE,
			   directory << ENTRIES_SHIFT,
			   walk->ages && shift <= translation->huge_shift ?
				   walk->ages->huge.page : 0);
}

/* The time at which a walk that starts now would end. */
static ticks walk(struct translation *translation, uint64_t address,
		  const struct walk_ages *ages, ticks time)
{
	const uint32_t shift = translation->page_shift;
	struct walk walk = { address, ages, time };

	if (translation->config->pointers)
		read_above(translation, &walk, shift + FANOUT_SHIFT);
	else
		read_directory(translation, &walk, shift + FANOUT_SHIFT);
	read_entry(translation, &walk, GUEST_TABLE, address >> shift,
		   age_at(translation, &walk, shift));
	if (translation->config->host_shift)
		read_host(translation, &walk);
	return walk.time;
}

ticks translate(struct translation *translation, uint64_t address, ticks time)
{
	uint64_t page = address >> translation->entry_shift;
	struct translation_slot *slot = slot_of(translation, page);
	enum miss miss = slot->miss;
	const struct timing_config *config = translation->config;
	ticks end, busy, waits;

	if (slot->page != page)
		return time;
	if (miss == MISS_NONE)
		return slot->ready > time ? slot->ready : time;
	time += (ticks)config->stlb_cycles * TICKS_PER_CYCLE;
	if (miss == MISS_WALK) {
		busy = (ticks)config->walk_cycles[translation->huge] *
		       TICKS_PER_CYCLE;
		end = walk(translation, address,
			   slot->aged ? &slot->ages : NULL, time) + busy;
		end = calendar_take(&translation->walkers, time, end - time);
		waits = (ticks)config->walk_latency * TICKS_PER_CYCLE;
		time = end - busy + (waits < busy ? waits : busy);
	}
	slot->ready = time;
	slot->miss = MISS_NONE;
	return time;
}
