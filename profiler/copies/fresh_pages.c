/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fresh_pages.h"

#include <string.h>

void fresh_pages_read(struct fresh_pages *fresh, pid_t pid)
{
	memset(fresh, 0, sizeof(*fresh));
	fresh->known = copy_mappings_read(&fresh->mappings, pid) == 0 &&
		       page_runs_read(&fresh->present, pid) == 0;
}

void fresh_pages_free(struct fresh_pages *fresh)
{
	copy_mappings_free(&fresh->mappings);
	page_runs_free(&fresh->present);
	fresh->known = false;
}

bool fresh_pages_have(const struct fresh_pages *fresh, uint64_t address)
{
	const struct copy_mapping *mapping;
	size_t low = 0, high = fresh->present.count;

	if (!fresh->known)
		return false;
	mapping = copy_mappings_find(&fresh->mappings, address);
	if (mapping && !page_runs_are_of(mapping))
		return false;
	/* The first run that ends behind the address. */
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (fresh->present.all[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low == fresh->present.count || address < fresh->present.all[low].start;
}
