/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "address_map.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024u
/* No code and no page of a program is there. */
#define NO_ADDRESS UINT64_MAX

static size_t place_of(const struct address_map *map, uint64_t address)
{
	size_t place = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (map->capacity - 1);

	while (map->entries[place].address != NO_ADDRESS && map->entries[place].address != address)
		place = (place + 1) & (map->capacity - 1);
	return place;
}

void *address_map_get(const struct address_map *map, uint64_t address)
{
	return map->capacity ? map->entries[place_of(map, address)].value : NULL;
}

static int resize(struct address_map *map, size_t capacity)
{
	struct address_map larger = { .capacity = capacity };

	larger.entries = malloc(capacity * sizeof(*larger.entries));
	if (!larger.entries)
		return -1;
	for (size_t i = 0; i < capacity; i++)
		larger.entries[i] = (struct address_entry){ NO_ADDRESS, NULL };
	for (size_t i = 0; i < map->capacity; i++) {
		const struct address_entry *entry = &map->entries[i];

		if (!entry->value)
			continue;
		larger.entries[place_of(&larger, entry->address)] = *entry;
		larger.used++;
	}
	free(map->entries);
	*map = larger;
	return 0;
}

int address_map_set(struct address_map *map, uint64_t address, void *value)
{
	struct address_entry *entry;

	if (!value && !map->capacity)
		return 0;
	if (2 * (map->used + 1) > map->capacity &&
	    resize(map, map->capacity ? 2 * map->capacity : FIRST_CAPACITY) < 0)
		return -1;
	entry = &map->entries[place_of(map, address)];
	if (entry->address == NO_ADDRESS) {
		if (!value)
			return 0;
		entry->address = address;
		map->used++;
	}
	entry->value = value;
	return 0;
}

void address_map_clear(struct address_map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		map->entries[i] = (struct address_entry){ NO_ADDRESS, NULL };
	map->used = 0;
}

void address_map_free(struct address_map *map)
{
	free(map->entries);
	memset(map, 0, sizeof(*map));
}
