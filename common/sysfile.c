/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sysfile.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Where a cgroup hierarchy keeps its figures; the two versions differ in names only. */
struct memory_files {
	const char *limits[2];
	const char *usage;
	const char *droppable;	/* field of memory.stat: cached file pages, dropped first */
	const char *mount;	/* where it is mounted if mountinfo does not say */
	const char *filesystem;
};

static const struct memory_files version1 = {
	.limits = { "memory.limit_in_bytes", NULL },
	.usage = "memory.usage_in_bytes",
	.droppable = "total_inactive_file",
	.mount = "/sys/fs/cgroup/memory",
	.filesystem = "cgroup",
};

static const struct memory_files version2 = {
	.limits = { "memory.max", "memory.high" },
	.usage = "memory.current",
	.droppable = "inactive_file",
	.mount = "/sys/fs/cgroup",
	.filesystem = "cgroup2",
};

static FILE *open_path(const char *format, va_list args)
{
	const char *root = getenv("TLBCOST_ROOT");
	char path[PATH_MAX];
	int used, more;

	used = snprintf(path, sizeof(path), "%s", root ? root : "");
	if (used < 0 || (size_t)used >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	more = vsnprintf(path + used, sizeof(path) - (size_t)used, format, args);
	if (more < 0 || (size_t)more >= sizeof(path) - (size_t)used) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return fopen(path, "re");
}

FILE *sysfile_open(const char *format, ...)
{
	va_list args;
	FILE *file;

	va_start(args, format);
	file = open_path(format, args);
	va_end(args);
	return file;
}

static int first_line(FILE *file, char *line, size_t size)
{
	int error = 0;

	if (!file)
		return -1;
	errno = 0;
	if (!fgets(line, (int)size, file))
		error = errno ? errno : ENODATA;
	else
		line[strcspn(line, "\n")] = '\0';
	fclose(file);
	errno = error;
	return error ? -1 : 0;
}

int sysfile_line(char *line, size_t size, const char *format, ...)
{
	va_list args;
	FILE *file;

	va_start(args, format);
	file = open_path(format, args);
	va_end(args);
	return first_line(file, line, size);
}

int sysfile_number(uint64_t *number, const char *format, ...)
{
	char line[64], *end;
	va_list args;
	FILE *file;

	va_start(args, format);
	file = open_path(format, args);
	va_end(args);
	if (first_line(file, line, sizeof(line)) != 0)
		return -1;
	if (strcmp(line, "max") == 0) {
		errno = ERANGE;
		return -1;
	}
	errno = 0;
	*number = strtoull(line, &end, 10);
	if (end == line)
		errno = EINVAL;
	return errno ? -1 : 0;
}

/* Find "<field><separator> <number>" in a file of such lines. */
static int find_field(FILE *file, const char *field, uint64_t *number)
{
	size_t length = strlen(field);
	char line[256];
	int found = -1;

	if (!file)
		return -1;
	while (found != 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, field, length) == 0 &&
		    (line[length] == ':' || line[length] == ' ')) {
			*number = strtoull(line + length + 1, NULL, 10);
			found = 0;
		}
	fclose(file);
	if (found != 0)
		errno = ENODATA;
	return found;
}

int sysfile_meminfo(const char *field, uint64_t *bytes)
{
	uint64_t kib;

	if (find_field(sysfile_open("/proc/meminfo"), field, &kib) != 0)
		return -1;
	*bytes = kib << 10;
	return 0;
}

/* Is `word` one of the comma-separated words of `list`? */
static int lists(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ',') &&
		    (at[length] == ',' || at[length] == '\0'))
			return 1;
	return 0;
}

/*
 * Where is the hierarchy mounted, and which of its folders is the top there?
 * In a container only the container's own part is mounted.
 */
static void find_mount(const struct memory_files *files, char mount[PATH_MAX], char top[PATH_MAX])
{
	char line[2 * PATH_MAX + 512], type[32], options[512];
	FILE *file = sysfile_open("/proc/self/mountinfo");
	const char *rest;
	int found = 0;

	_Static_assert(PATH_MAX > 4095, "the field widths below rely on it");
	while (file && !found && fgets(line, sizeof(line), file)) {
		rest = strstr(line, " - ");
		if (!rest || sscanf(rest, " - %31s %*s %511s", type, options) != 2 ||
		    strcmp(type, files->filesystem) != 0 ||
		    (files == &version1 && !lists(options, "memory")))
			continue;
		found = sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) == 2;
	}
	if (file)
		fclose(file);
	if (!found) {
		strcpy(mount, files->mount);
		strcpy(top, "/");
	}
}

/* Limit the memory to what one folder of the hierarchy leaves. */
static void apply_folder(struct memory_room *room, const struct memory_files *files,
			 const char *mount, const char *folder)
{
	uint64_t limit, usage, droppable, left;

	if (sysfile_number(&usage, "%s%s/%s", mount, folder, files->usage) != 0)
		return;
	if (find_field(sysfile_open("%s%s/memory.stat", mount, folder),
		       files->droppable, &droppable) != 0)
		droppable = 0;
	usage -= droppable < usage ? droppable : usage;
	for (int i = 0; i < 2 && files->limits[i]; i++) {
		if (sysfile_number(&limit, "%s%s/%s", mount, folder, files->limits[i]) != 0)
			continue;
		left = limit > usage ? limit - usage : 0;
		if (left >= room->bytes)
			continue;
		room->bytes = left;
		snprintf(room->limit, sizeof(room->limit), "%.200s%.200s/%s",
			 mount, folder, files->limits[i]);
	}
}

/* A limit applies to everything below it, so every ancestor counts. */
static void apply_hierarchy(struct memory_room *room, const struct memory_files *files,
			    const char *path)
{
	char mount[PATH_MAX], top[PATH_MAX], folder[PATH_MAX];
	size_t length;
	char *slash;

	find_mount(files, mount, top);
	length = strcmp(top, "/") == 0 ? 0 : strlen(top);
	if (strncmp(path, top, length) != 0 || (path[length] != '/' && path[length] != '\0'))
		length = strlen(path);	/* not below the mount: only its top is visible */
	snprintf(folder, sizeof(folder), "%s", path + length);
	while ((slash = strrchr(folder, '/'))) {
		if (slash[1] != '\0')
			apply_folder(room, files, mount, folder);
		*slash = '\0';
	}
	apply_folder(room, files, mount, "");
}

int sysfile_memory_room_of(struct memory_room *room, const char *process)
{
	char line[PATH_MAX + 256], *controllers, *path;
	FILE *file;

	strcpy(room->limit, "MemAvailable of /proc/meminfo");
	if (sysfile_meminfo("MemAvailable", &room->bytes) != 0) {
		/* Kernels before 3.14 do not report it; free memory is the cautious answer. */
		strcpy(room->limit, "MemFree of /proc/meminfo");
		if (sysfile_meminfo("MemFree", &room->bytes) != 0)
			return -1;
	}
	file = sysfile_open("/proc/%s/cgroup", process);
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		if (*controllers == '\0')
			apply_hierarchy(room, &version2, path);
		else if (lists(controllers, "memory"))
			apply_hierarchy(room, &version1, path);
	}
	if (file)
		fclose(file);
	return 0;
}

int sysfile_memory_room(struct memory_room *room)
{
	return sysfile_memory_room_of(room, "self");
}
