/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What belongs to an address?  A hash table from addresses to pointers. */
#ifndef TLBCOST_COPIES_ADDRESS_MAP_H
#define TLBCOST_COPIES_ADDRESS_MAP_H

#include <stddef.h>
#include <stdint.h>

struct address_entry {
	uint64_t address;
	void *value;		/* NULL: empty, or removed */
};

/* Zeroed is empty. */
struct address_map {
	struct address_entry *entries;
	size_t capacity, used;	/* used: with those removed */
};

/* NULL: there is none. */
void *address_map_get(const struct address_map *map, uint64_t address);

/* Set or replace; `value` NULL removes it.  Returns 0, or -1 with errno ENOMEM. */
int address_map_set(struct address_map *map, uint64_t address, void *value);

/* Remove all. */
void address_map_clear(struct address_map *map);
void address_map_free(struct address_map *map);

#endif
