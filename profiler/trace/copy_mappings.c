/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copy_mappings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns 0, or -1 with errno. */
static int parse(struct copy_mapping *mapping, char *line)
{
	char permissions[5];
	int name = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &mapping->start, &mapping->end, permissions, &mapping->offset, &mapping->major,
		   &mapping->minor, &mapping->inode, &name) < 7) {
		errno = EPROTO;
		return -1;
	}
	mapping->readable = permissions[0] == 'r';
	mapping->writable = permissions[1] == 'w';
	mapping->executable = permissions[2] == 'x';
	mapping->shared = permissions[3] == 's';
	mapping->name = strdup(name ? line + name : "");
	return mapping->name ? 0 : -1;
}

static int add(struct copy_mappings *mappings, size_t *capacity, char *line)
{
	if (mappings->count == *capacity) {
		size_t larger = *capacity ? 2 * *capacity : 64;
		struct copy_mapping *all = realloc(mappings->all, larger * sizeof(*all));

		if (!all)
			return -1;
		mappings->all = all;
		*capacity = larger;
	}
	if (parse(&mappings->all[mappings->count], line) < 0)
		return -1;
	mappings->count++;
	return 0;
}

int copy_mappings_read(struct copy_mappings *mappings, pid_t pid)
{
	char path[32], *line = NULL;
	size_t capacity = 0, size = 0;
	int rc = 0, error;
	FILE *file;

	*mappings = (struct copy_mappings){ NULL, 0 };
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (rc == 0 && getline(&line, &size, file) > 0)
		rc = add(mappings, &capacity, line);
	if (ferror(file))
		rc = -1;
	error = errno;
	free(line);
	fclose(file);
	if (rc < 0)
		copy_mappings_free(mappings);
	errno = error;
	return rc;
}

void copy_mappings_free(struct copy_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++)
		free(mappings->all[i].name);
	free(mappings->all);
	*mappings = (struct copy_mappings){ NULL, 0 };
}

const struct copy_mapping *copy_mappings_find(const struct copy_mappings *mappings, uint64_t address)
{
	size_t low = 0, high = mappings->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (mappings->all[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == mappings->count || mappings->all[low].start > address)
		return NULL;
	return &mappings->all[low];
}
