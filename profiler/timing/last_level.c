/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "last_level.h"

/* log2 of the data lines whose translations are in one line of a table. */
#define TABLE_REACH_SHIFT 9u

void memory_share(struct memory *memory, uint64_t bytes, uint64_t touched)
{
	const uint64_t all = UINT64_C(1) << 32;
	uint64_t gone;

	memory->l3_share = touched <= bytes ? all : (bytes << 32) / touched;
	/*
	 * Where references are anywhere, a line of a table is wanted as often
	 * as all data that it translates.  A line is in a cache if it was
	 * wanted while so much else was as fits in (Che, Tung and Wang, 2002).
	 */
	gone = all - memory->l3_share;
	for (uint32_t i = 0; i < TABLE_REACH_SHIFT; i++)
		gone = (gone >> 1) * (gone >> 1) >> 30;
	memory->l3_table_share = all - gone;
}

void memory_begin(struct memory *memory, ticks time, ticks program_time,
		  uint64_t touched, ticks per_reference)
{
	struct residency *residency = &memory->residency;
	struct sightings *seen = &memory->sightings;

	if (!memory->config->l3_half_life_cycles[0])
		return;
	residency_begin(residency, memory->config, time, touched >> LINE_SHIFT,
			seen);
	residency->begin = program_time;
	residency->ahead = program_time - time;
	residency->per_reference = per_reference;
	if (seen->asked)
		memory->l3_share = ((seen->asked - seen->missing) << 32) / seen->asked;
}

/*
 * Do tables' lines follow each other?  Then one is used up before the next is
 * read, and was not wanted since the program was here last.
 */
static bool table_follows(struct memory *memory, uint64_t line)
{
	bool follows = false;

	for (uint32_t i = 0; i < MEMORY_TABLES; i++)
		follows |= memory->tables[i] + 1 == line ||
			   memory->tables[i] == line + 1;
	memory->tables[memory->next_table++ % MEMORY_TABLES] = line;
	return follows;
}

/* How long ago was a line of data wanted?  It is wanted now. */
static ticks age_of(struct memory *memory, uint64_t line, ticks now,
		    uint64_t random)
{
	struct sightings *sightings = &memory->sightings;
	struct cache_line *seen = cache_find(memory->l3, line);
	ticks age, since;

	if (!seen) {
		cache_insert(memory->l3, line, now);
		cache_find(memory->l3, line)->windows = 1;
		sightings->first++;
		return residency_age(&memory->residency, now, 0, random);
	}
	since = now > seen->arrival ? now - seen->arrival : 0;
	age = since;
	if (seen->arrival < (memory->residency.begin & CACHE_TIME)) {
		if (memory->residency.often)
			age = residency_age(&memory->residency, now,
					    (uint32_t)seen->windows, random);
		sightings->second += seen->windows == 1;
		sightings->third += seen->windows == 2;
		if (seen->windows < CACHE_MOST_WINDOWS)
			seen->windows++;
	}
	seen->arrival = now & CACHE_TIME;
	return age < since ? age : since;
}

/* Has a line that is not in L2 stayed in the last-level cache? */
static bool resides(struct memory *memory, uint64_t line, ticks time, uint64_t age)
{
	const struct residency *residency = &memory->residency;
	struct sightings *seen = &memory->sightings;
	/* The same for a line in all of a window. */
	const uint64_t random =
		scatter(line + seen->windows * UINT64_C(0x100000001b3)) >> 32;
	bool left;

	if (!memory->l3->sets)
		return false;
	if (age != AGE_UNKNOWN) {
		age *= residency->per_reference;
		left = residency_left(residency, age, random);
	} else {
		age = age_of(memory, line, residency_now(residency, time),
			     random >> 8);
		left = residency_left(residency, age, random);
		seen->asked++;
		seen->missing += !left;
	}
	residency_saw(seen, age);
	return left;
}

/* The same where it is not known how long lines stay: by how much of the program fits. */
static bool in_l3(struct memory *memory, uint64_t line, enum line_kind kind)
{
	struct cache_line gone;
	uint64_t share = memory->l3_share;

	if (!memory->l3->sets)
		return false;
	if (kind == LINE_TABLE && !table_follows(memory, line))
		share = memory->l3_table_share;
	if (cache_find(memory->l3, line))
		return true;
	gone = cache_insert(memory->l3, line, 0);
	/* A full set tells; where rows are known, so is where lines lie. */
	if (memory->config->row_cycles && gone.line != CACHE_NO_LINE)
		return kind == LINE_TABLE;
	return scatter(line) >> 32 < share;
}

bool last_level_has(struct memory *memory, uint64_t line, ticks time,
		    struct wish wish)
{
	if (memory->config->l3_half_life_cycles[0])
		return resides(memory, line, time, wish.age);
	return in_l3(memory, line, wish.kind);
}
