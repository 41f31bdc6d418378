/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are files of /proc and /sys read whatever is in them? */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfile.h"
#include "fuzz.h"

static char root[] = "/tmp/tlbcost-fuzz.XXXXXX";

/* One file that the names of all others lead to. */
static const char *const folders[] = {
	"/proc", "/proc/self", "/proc/1", "/sys", "/sys/fs", "/sys/fs/cgroup",
};
static const char *const files[] = {
	"/proc/meminfo", "/proc/modules", "/proc/self/cgroup", "/proc/self/mountinfo",
	"/proc/1/maps", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
	"/sys/fs/cgroup/memory.stat",
};

static void remove_machine(void)
{
	char path[128];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, files[i]);
		unlink(path);
	}
	for (size_t i = sizeof(folders) / sizeof(folders[0]); i-- > 0;) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		rmdir(path);
	}
	snprintf(path, sizeof(path), "%s/content", root);
	unlink(path);
	rmdir(root);
}

static void make_machine(char *content, size_t size)
{
	char path[128];

	if (!mkdtemp(root) || setenv("TLBCOST_ROOT", root, 1) < 0)
		abort();
	atexit(remove_machine);
	snprintf(content, size, "%s/content", root);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		if (mkdir(path, 0700) < 0)
			abort();
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, files[i]);
		if (symlink(content, path) < 0)
			abort();
	}
}

void fuzz_files(const uint8_t *bytes, size_t size)
{
	static char content[64];
	struct memory_room room;
	uint64_t number;
	char line[16];
	FILE *file;

	if (!content[0])
		make_machine(content, sizeof(content));
	file = fopen(content, "w");
	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
		abort();
	(void)sysfile_line(line, sizeof(line), "/proc/meminfo");
	(void)sysfile_number(&number, "/proc/meminfo");
	(void)sysfile_meminfo("MemAvailable", &number);
	(void)sysfile_memory_room(&room);
}
