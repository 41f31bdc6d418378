/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "accesses.h"

#include <stdlib.h>
#include <string.h>

int accesses_add(struct accesses *accesses, const struct access *access)
{
	if (accesses->count == accesses->room) {
		const size_t room = accesses->room ? 2 * accesses->room : 1024;
		struct access *list = reallocarray(accesses->list, room, sizeof(*list));

		if (!list)
			return -1;
		accesses->list = list;
		accesses->room = room;
	}
	accesses->list[accesses->count++] = *access;
	return 0;
}

void accesses_write(const struct accesses *accesses, const char *const *event_names,
		    struct table *table)
{
	table_columns(table, "event tid cpu address level weight");
	for (size_t i = 0; i < accesses->count; i++) {
		const struct access *access = &accesses->list[i];

		table_word(table, event_names[access->event]);
		table_count(table, access->tid);
		table_count(table, access->cpu);
		table_count(table, access->address);
		table_word(table, access->level ? access->level : "NA");
		table_count(table, access->weight);
	}
}

void accesses_free(struct accesses *accesses)
{
	free(accesses->list);
	memset(accesses, 0, sizeof(*accesses));
}
