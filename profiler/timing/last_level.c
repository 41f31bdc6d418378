/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "last_level.h"

/* log2 of the data lines whose translations are in one line of a table. */
#define TABLE_REACH_SHIFT 9u

/*
 * Slices of a shared cache have 2^11 sets, and a hash of all higher bits of the address selects the
 * slice (Maurice et al., RAID 2015, of Intel's cores since Sandy Bridge).
 */
#define SLICE_SETS_SHIFT 11u

static uint64_t sliced(const struct cache *cache, uint64_t line)
{
	const uint64_t above = (cache->sets - 1) >> SLICE_SETS_SHIFT << SLICE_SETS_SHIFT;

	return line ^ (scatter(line / cache->sets) >> 16 & above);
}

void last_level_init(struct last_level *level, const struct timing_config *config,
		     struct cache *cache)
{
	level->config = config;
	level->cache = cache;
	level->reuse = NULL;
	level->base_tables = false;
	for (uint32_t i = 0; i < LAST_LEVEL_TABLES; i++)
		level->tables[i] = UINT64_MAX / 2;
	level->next_table = 0;
	level->sightings = (struct sightings){ .windows = 0 };
	last_level_share(level, 1, 1);
	last_level_begin(level, 0, 0, 0, 1);
}

/*
 * If references are random, a line of a table is accessed as often as all data that it
 * translates: the share of them that is not cached is that of data to the power of their number.
 * Data that comes in pairs of lines counts once for both.
 */
static uint64_t tables_gone(uint64_t data_gone, bool pairs)
{
	for (uint32_t i = pairs ? 1 : 0; i < TABLE_REACH_SHIFT; i++)
		data_gone = (data_gone >> 1) * (data_gone >> 1) >> 30;
	return data_gone;
}

/*
 * A line is cached if its last access is more recent than a cacheful of others (Che, Tung and
 * Wang, 2002): those of the tables, too.
 */
void last_level_share(struct last_level *level, uint64_t bytes, uint64_t touched)
{
	const uint64_t all = UINT64_C(1) << 32;
	const uint64_t fits = touched <= bytes ? all : (bytes << 32) / touched;
	uint64_t least = 0, most = fits;

	level->share = level->table_share = all;
	if (fits == all)
		return;
	while (least + 1 < most) {
		const uint64_t share = (least + most) / 2;
		const uint64_t tables =
			all - tables_gone(all - share, level->config->pairs);

		if (share + (tables >> TABLE_REACH_SHIFT) > fits)
			most = share;
		else
			least = share;
	}
	level->share = least;
	level->table_share = all - tables_gone(all - least, level->config->pairs);
}

void last_level_begin(struct last_level *level, ticks time, ticks program_time,
		      uint64_t touched, ticks per_reference)
{
	struct residency *residency = &level->residency;
	struct sightings *seen = &level->sightings;

	residency->begin = program_time;
	residency->ahead = program_time - time;
	residency->per_reference = per_reference;
	residency->reuse = NULL;
	if (level->config->l3_half_life_cycles[0]) {
		residency_begin(residency, level->config, time, touched >> LINE_SHIFT, seen);
	} else if (level->reuse) {
		residency_begin_seen(residency, level->config, level->reuse, level->base_tables);
		seen->windows++;
	} else {
		return;
	}
	if (seen->asked)
		level->share = ((seen->asked - seen->missing) << 32) / seen->asked;
}

/*
 * Do tables' lines follow each other?  Then one is used up before the next is read, and was
 * last accessed when the program was here before.
 */
static bool table_follows(struct last_level *level, uint64_t line)
{
	bool follows = false;

	for (uint32_t i = 0; i < LAST_LEVEL_TABLES; i++)
		follows |= level->tables[i] + 1 == line ||
			   level->tables[i] == line + 1;
	level->tables[level->next_table++ % LAST_LEVEL_TABLES] = line;
	return follows;
}

/* How long ago was a line accessed whose age is not known?  It is accessed now. */
static ticks age_of(struct last_level *level, uint64_t line, struct line_access access, ticks now,
		    uint64_t random)
{
	struct sightings *sightings = &level->sightings;
	const enum line_kind kind = access.kind;
	struct cache_line *seen = cache_find(level->cache, line);
	ticks age, since;

	if (!seen && access.paired && level->residency.reuse)
		return residency_age(&level->residency, kind, now, 0, random);
	if (!seen) {
		const struct cache_line gone = cache_insert(level->cache, line, now);

		cache_find(level->cache, line)->windows = 1;
		sightings->first++;
		/* A full set shows it; where rows are known, the lines' places are too. */
		if (level->residency.reuse && level->config->row_cycles &&
		    gone.line != CACHE_NO_LINE)
			return kind == LINE_TABLE ? 0 : NEVER_ACCESSED;
		return residency_age(&level->residency, kind, now, 0, random);
	}
	since = now > seen->arrival ? now - seen->arrival : 0;
	age = since;
	if (seen->arrival < (level->residency.begin & CACHE_TIME)) {
		if (level->residency.often)
			age = residency_age(&level->residency, kind, now,
					    (uint32_t)seen->windows, random);
		sightings->second += seen->windows == 1;
		sightings->third += seen->windows == 2;
		if (seen->windows < CACHE_MOST_WINDOWS)
			seen->windows++;
	}
	if (!access.paired || !level->residency.reuse)
		seen->arrival = now & CACHE_TIME;
	if (age < since)
		return age;
	return level->residency.reuse ? residency_spread(&level->residency, since, random) : since;
}

/* Is a line that is not in L2 still in the last-level cache? */
static bool resides(struct last_level *level, uint64_t line, ticks time, struct line_access access)
{
	const struct residency *residency = &level->residency;
	struct sightings *seen = &level->sightings;
	/* The same throughout a window for a line. */
	const uint64_t random =
		scatter(line + seen->windows * UINT64_C(0x100000001b3)) >> 32;
	ticks age = access.age;
	bool left;

	if (!level->cache->sets)
		return false;
	if (age != AGE_UNKNOWN) {
		if (age != NEVER_ACCESSED)
			age *= residency->per_reference;
		left = residency_left(residency, access.kind, age, random);
	} else {
		age = age_of(level, line, access, residency_now(residency, time),
			     random >> 8);
		left = residency_left(residency, access.kind, age, random);
		seen->asked++;
		seen->missing += !left;
	}
	residency_saw(seen, age);
	return left;
}

/* The same if the lines' half-life is unknown: by how much of the program fits. */
static bool in_l3(struct last_level *level, uint64_t line, enum line_kind kind)
{
	struct cache_line gone;
	uint64_t share = level->share;

	if (!level->cache->sets)
		return false;
	if (kind == LINE_TABLE && !table_follows(level, line))
		share = level->table_share;
	if (cache_find(level->cache, line))
		return true;
	gone = cache_insert(level->cache, line, 0);
	/* A full set shows it; where rows are known, the lines' places are too. */
	if (level->config->row_cycles && gone.line != CACHE_NO_LINE)
		return kind == LINE_TABLE;
	return scatter(line) >> 32 < share;
}

bool last_level_has(struct last_level *level, uint64_t line, ticks time,
		    struct line_access access)
{
	if (level->cache->sets)
		line = sliced(level->cache, line);
	if (level->config->l3_half_life_cycles[0] || level->residency.reuse)
		return resides(level, line, time, access);
	return in_l3(level, line, access.kind);
}
