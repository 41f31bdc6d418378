/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cache.h"

bool cache_valid(uint32_t bytes, uint32_t ways)
{
	uint32_t lines = bytes >> LINE_SHIFT, sets;

	if (ways == 0 || lines == 0 || lines % ways != 0)
		return false;
	sets = lines / ways;
	return (sets & (sets - 1)) == 0;
}

uint32_t cache_size_within(uint32_t bytes, uint32_t *ways)
{
	uint32_t shift = LINE_SHIFT;

	for (; bytes >> shift >= 32; shift++)
		;
	*ways = bytes >> shift;
	return *ways << shift;
}

void cache_init(struct cache *cache, uint32_t bytes, uint32_t ways,
		struct cache_line *lines)
{
	cache->lines = lines;
	cache->ways = ways;
	cache->sets = ways ? (bytes >> LINE_SHIFT) / ways : 0;
	for (size_t i = 0; i < cache_lines(bytes); i++)
		lines[i] = (struct cache_line){ .line = CACHE_NO_LINE };
}

struct cache_line *cache_find_again(struct cache *cache, uint64_t line)
{
	struct cache_line *set = cache_set(cache, line), found;
	uint32_t way = 1;

	while (way < cache->ways && set[way].line != line)
		way++;
	if (way == cache->ways)
		return NULL;
	found = set[way];
	for (; way > 0; way--)
		set[way] = set[way - 1];
	set[0] = found;
	return set;
}

static struct cache_line insert_at(struct cache *cache, uint32_t place,
				   uint64_t line, ticks arrival)
{
	struct cache_line *set = cache_set(cache, line);
	struct cache_line gone = set[cache->ways - 1];

	for (uint32_t way = cache->ways - 1; way > place; way--)
		set[way] = set[way - 1];
	set[place] = (struct cache_line){
		.line = line, .arrival = arrival & CACHE_TIME
	};
	return gone;
}

struct cache_line cache_insert(struct cache *cache, uint64_t line, ticks arrival)
{
	return insert_at(cache, 0, line, arrival);
}

struct cache_line cache_insert_late(struct cache *cache, uint64_t line,
				    ticks arrival)
{
	return insert_at(cache, cache->ways / 2, line, arrival);
}
