/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mappings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sysfile.h"

/* Stacks are some MiB, unless they are unlimited; further below is something else. */
enum { STACK_GROWTH = 64 << 20 };

static struct space **slot(struct mappings *mappings, uint32_t pid)
{
	struct space **space = &mappings->spaces[pid % SPACE_HASHES];

	while (*space && (*space)->pid != pid)
		space = &(*space)->next;
	return space;
}

static struct space *space_of(struct mappings *mappings, uint32_t pid)
{
	struct space **space = slot(mappings, pid);

	if (!*space) {
		*space = calloc(1, sizeof(**space));
		if (*space)
			(*space)->pid = pid;
	}
	return *space;
}

static void forget(struct mappings *mappings, uint32_t pid)
{
	struct space **space = slot(mappings, pid), *gone = *space;

	if (!gone)
		return;
	*space = gone->next;
	free(gone->list);
	free(gone);
}

/* The first mapping that ends after the address: where it is, or would be. */
static size_t search(const struct space *space, uint64_t address)
{
	size_t low = 0, high = space->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int make_room(struct space *space, size_t more)
{
	struct mapping *list;
	size_t room = 2 * (space->count + more);

	if (space->count + more <= space->room)
		return 0;
	list = realloc(space->list, room * sizeof(*list));
	if (!list)
		return -1;
	space->list = list;
	space->room = room;
	return 0;
}

/* Replace list[from, to) by `count` mappings. */
static void splice(struct space *space, size_t from, size_t to,
		   const struct mapping *with, size_t count)
{
	memmove(space->list + from + count, space->list + to,
		(space->count - to) * sizeof(*with));
	memcpy(space->list + from, with, count * sizeof(*with));
	space->count = space->count - (to - from) + count;
}

static int put(struct space *space, const struct mapping *mapping)
{
	struct mapping parts[3];
	size_t from = search(space, mapping->start), to = from, count = 0;

	if (make_room(space, 2) < 0)
		return -1;
	while (to < space->count && space->list[to].start < mapping->end)
		to++;
	/* Parts of the first and the last one that it does not cover remain. */
	if (from < to && space->list[from].start < mapping->start) {
		parts[count] = space->list[from];
		parts[count++].end = mapping->start;
	}
	parts[count++] = *mapping;
	if (from < to && space->list[to - 1].end > mapping->end) {
		parts[count] = space->list[to - 1];
		parts[count].offset += mapping->end - parts[count].start;
		parts[count++].start = mapping->end;
	}
	splice(space, from, to, parts, count);
	return 0;
}

int mappings_add(struct mappings *mappings, uint32_t pid,
		 const struct mapping *mapping)
{
	struct space *space;

	if (mapping->start >= mapping->end)
		return 0;
	space = space_of(mappings, pid);
	return space ? put(space, mapping) : -1;
}

/* The number of a process that ended is in use again: it must not be forgotten. */
static void revive(struct mappings *mappings, uint32_t pid)
{
	for (size_t i = 0; i < ENDED_KEPT; i++)
		if (mappings->ended[i] == pid)
			mappings->ended[i] = 0;
}

int mappings_fork(struct mappings *mappings, uint32_t pid, uint32_t parent)
{
	struct space *child, *from;

	if (pid == parent)
		return 0;
	revive(mappings, pid);
	forget(mappings, pid);
	child = space_of(mappings, pid);
	from = space_of(mappings, parent);
	if (!child || !from)
		return -1;
	if (from->count == 0)
		return 0;
	if (make_room(child, from->count) < 0)
		return -1;
	memcpy(child->list, from->list, from->count * sizeof(*child->list));
	child->count = from->count;
	return 0;
}

int mappings_exec(struct mappings *mappings, uint32_t pid)
{
	struct space *space = space_of(mappings, pid);

	if (!space)
		return -1;
	space->count = 0;
	return 0;
}

void mappings_exit(struct mappings *mappings, uint32_t pid)
{
	uint32_t *ended = &mappings->ended[mappings->next_ended++ % ENDED_KEPT];

	if (*ended)
		forget(mappings, *ended);
	*ended = pid;
}

/* The kernel writes a newline in a path as \012.  Returns the length of the name. */
static size_t unescaped(char *name)
{
	char *to = name;

	for (const char *from = name; *from && *from != '\n'; to++)
		if (strncmp(from, "\\012", 4) == 0) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	return (size_t)(to - name);
}

int mappings_read(struct mappings *mappings, uint32_t pid, int code_only)
{
	struct space *space = space_of(mappings, pid);
	FILE *file = sysfile_open("/proc/%" PRIu32 "/maps", pid);
	char *line = NULL, execute;
	size_t size = 0;
	int result = space ? 0 : -1;

	if (space)
		space->read = mappings->rounds + 1;
	while (file && result == 0 && getline(&line, &size, file) >= 0) {
		struct mapping mapping;
		const char *name;
		char *path;
		size_t length;
		int at = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c%*c %" SCNx64 " %*s %*s%n",
			   &mapping.start, &mapping.end, &execute, &mapping.offset,
			   &at) < 4 || !at || mapping.start >= mapping.end)
			continue;
		if (code_only && execute != 'x')
			continue;
		path = line + at + strspn(line + at, " ");
		length = unescaped(path);
		name = mapping_name(path, &length);
		mapping.name = names_number(&mappings->names, name, length, NULL, 0);
		result = mapping.name == NO_NAME ? -1 : put(space, &mapping);
	}
	free(line);
	if (file)
		fclose(file);
	return result;
}

static const struct mapping *look_up(const struct mappings *mappings,
				     const struct space *space, uint64_t address)
{
	size_t at = search(space, address);
	const struct mapping *mapping = at < space->count ? &space->list[at] : NULL;

	if (!mapping || mapping->start <= address)
		return mapping;
	/*
	 * A stack grows by a fault below it, which the kernel reports before it reports the
	 * growth.
	 */
	if (mapping->start - address <= STACK_GROWTH &&
	    strcmp(mappings->names.list[mapping->name].text, STACK_NAME) == 0)
		return mapping;
	return NULL;
}

const struct mapping *mappings_find(struct mappings *mappings, uint32_t pid,
				    uint64_t address, int code_only)
{
	struct space *space = space_of(mappings, pid);
	const struct mapping *found;

	if (!space)
		return NULL;
	found = look_up(mappings, space, address);
	if (found || space->read == mappings->rounds + 1 ||
	    mappings_read(mappings, pid, code_only) < 0)
		return found;
	return look_up(mappings, space, address);
}

static const char *text_of(const struct mappings *mappings, const struct mapping *mapping)
{
	return mappings->names.list[mapping->name].text;
}

int mappings_is_bss(struct mappings *mappings, uint32_t pid, uint64_t address)
{
	const struct space *space = space_of(mappings, pid);
	size_t at = space ? search(space, address) : 0;
	const char *name;

	if (!space || at == space->count || space->list[at].start > address)
		return 0;
	/* Calls like madvise() split it. */
	while (at && space->list[at - 1].end == space->list[at].start &&
	       strcmp(text_of(mappings, &space->list[at]), ANONYMOUS_NAME) == 0)
		at--;
	name = text_of(mappings, &space->list[at]);
	return space->list[at].end <= address && name[0] == '/' &&
	       strcmp(name, text_of(mappings, &space->list[0])) == 0;
}

void mappings_round(struct mappings *mappings)
{
	mappings->rounds++;
}

void mappings_free(struct mappings *mappings)
{
	for (size_t i = 0; i < SPACE_HASHES; i++)
		while (mappings->spaces[i])
			forget(mappings, mappings->spaces[i]->pid);
	names_free(&mappings->names);
}
