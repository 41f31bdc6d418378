/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unforked_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of maps or smaps that begins a mapping. */
static bool parse(const char *line, struct memory_range *range, bool *kernels)
{
	struct memory_range found;
	char rights[5];
	int end = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %*u %n", &found.start, &found.end,
		   rights, &end) != 3 || !end)
		return false;
	*range = found;
	/* Of shared memory copies get nothing anyway: a ring of perf's, or a device's. */
	*kernels = rights[3] == 's' || (line[end] == '[' && strncmp(line + end, "[heap]", 6) != 0 &&
		 strncmp(line + end, "[stack]", 7) != 0 && strncmp(line + end, "[anon", 5) != 0);
	return true;
}

/* The next mapping that is not the kernel's own. */
static bool next(FILE *maps, struct memory_range *range)
{
	char line[4352];
	bool kernels;

	while (fgets(line, sizeof(line), maps))
		if (parse(line, range, &kernels) && !kernels)
			return true;
	return false;
}

static FILE *open_file(pid_t process, pid_t thread, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", process, thread, name);
	return fopen(path, "re");
}

static bool lacks(FILE *program, FILE *copy)
{
	struct memory_range theirs = { 0, 0 }, ours;

	while (next(program, &ours)) {
		while (theirs.end <= ours.start)
			if (!next(copy, &theirs))
				return true;
		if (theirs.start >= ours.end)
			return true;
	}
	return false;
}

bool unforked_memory_lacks(pid_t process, pid_t thread, pid_t copy)
{
	FILE *program = open_file(process, thread, "maps");
	FILE *other = program ? open_file(copy, copy, "maps") : NULL;
	bool result = other && lacks(program, other);

	if (program)
		fclose(program);
	if (other)
		fclose(other);
	return result;
}

static int add(struct unforked_memory *memory, struct memory_range range)
{
	size_t capacity = memory->capacity ? 2 * memory->capacity : 64;
	struct memory_range *ranges;

	if (memory->count && memory->ranges[memory->count - 1].end == range.start) {
		memory->ranges[memory->count - 1].end = range.end;
		return 0;
	}
	if (memory->count == memory->capacity) {
		ranges = realloc(memory->ranges, capacity * sizeof(*ranges));
		if (!ranges)
			return -1;
		memory->ranges = ranges;
		memory->capacity = capacity;
	}
	memory->ranges[memory->count++] = range;
	return 0;
}

/* Of "VmFlags: rd wr ..."; io and pf: a device's memory, where madvise() is refused. */
static bool is_unforked(const char *flags)
{
	return strstr(flags, " dc") && !strstr(flags, " io") && !strstr(flags, " pf");
}

int unforked_memory_read(pid_t process, pid_t thread, struct unforked_memory *memory)
{
	struct memory_range range = { 0, 0 };
	bool kernels = true;
	char line[4352];
	FILE *smaps;
	int rc = 0;

	memset(memory, 0, sizeof(*memory));
	smaps = open_file(process, thread, "smaps");
	if (!smaps)
		return -1;
	while (rc == 0 && fgets(line, sizeof(line), smaps)) {
		if (strncmp(line, "VmFlags:", 8) == 0) {
			if (!kernels && is_unforked(line))
				rc = add(memory, range);
		} else {
			parse(line, &range, &kernels);
		}
	}
	fclose(smaps);
	return rc;
}

void unforked_memory_free(struct unforked_memory *memory)
{
	free(memory->ranges);
	memset(memory, 0, sizeof(*memory));
}
