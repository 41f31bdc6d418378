/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "targets.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfile.h"

static int append(struct numbers *numbers, int number)
{
	size_t count = numbers->count;

	/* The capacity doubles at powers of two. */
	if ((count & (count - 1)) == 0) {
		int *at = reallocarray(numbers->at, count ? 2 * count : 1, sizeof(*at));

		if (!at)
			return -1;
		numbers->at = at;
	}
	numbers->at[numbers->count++] = number;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int targets_threads(struct numbers *threads, pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;
	int error = 0;

	*threads = (struct numbers){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	if (!folder) {
		if (errno == ENOENT)
			errno = ESRCH;
		return -1;
	}
	while (!error && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    append(threads, atoi(entry->d_name)) < 0)
			error = errno;
	closedir(folder);
	if (!error && !threads->count)
		error = ESRCH;
	if (error) {
		numbers_free(threads);
		errno = error;
		return -1;
	}
	qsort(threads->at, threads->count, sizeof(*threads->at), compare);
	return 0;
}

/* Read "0-3,8". */
static int read_list(struct numbers *numbers, const char *text)
{
	char *end;

	for (;;) {
		long first = strtol(text, &end, 10), last = first;

		if (end == text)
			break;
		if (*end == '-') {
			text = end + 1;
			last = strtol(text, &end, 10);
		}
		if (end == text || first < 0 || last < first || last > 1 << 20)
			break;
		for (long n = first; n <= last; n++)
			if (append(numbers, (int)n) < 0)
				return -1;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			break;
		text = end + 1;
	}
	errno = EINVAL;
	return -1;
}

int targets_cpus(struct numbers *cpus)
{
	char line[4096];
	int error;

	*cpus = (struct numbers){ 0 };
	if (sysfile_line(line, sizeof(line), "/sys/devices/system/cpu/online") == 0 &&
	    read_list(cpus, line) == 0)
		return 0;
	error = errno;
	numbers_free(cpus);
	errno = error;
	return -1;
}

int numbers_include(const struct numbers *all, const struct numbers *some)
{
	for (size_t i = 0; i < some->count; i++)
		if (!all->count ||
		    !bsearch(&some->at[i], all->at, all->count, sizeof(*all->at), compare))
			return 0;
	return 1;
}

void numbers_free(struct numbers *numbers)
{
	free(numbers->at);
	*numbers = (struct numbers){ 0 };
}

/*
 * A controller that version 1 mounts is not part of version 2.
 * Returns 0, or -1 with errno ENOENT.
 */
static int find_mount(char mount[PATH_MAX])
{
	FILE *mounts = sysfile_open("/proc/self/mounts");
	struct mntent *entry;
	int found = 0, version1 = 0;

	while (mounts && !version1 && (entry = getmntent(mounts))) {
		version1 = strcmp(entry->mnt_type, "cgroup") == 0 &&
			   hasmntopt(entry, "perf_event");
		if (version1 || (!found && strcmp(entry->mnt_type, "cgroup2") == 0)) {
			snprintf(mount, PATH_MAX, "%s", entry->mnt_dir);
			found = 1;
		}
	}
	if (mounts)
		fclose(mounts);
	errno = ENOENT;
	return found ? 0 : -1;
}

int targets_cgroup(const char *path)
{
	char mount[PATH_MAX] = "", full[2 * PATH_MAX];

	if (*path != '/' && find_mount(mount) < 0)
		return -1;
	snprintf(full, sizeof(full), "%s%s%s", mount, *path == '/' ? "" : "/", path);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
