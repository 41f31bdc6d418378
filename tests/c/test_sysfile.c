/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the room for memory what a made-up machine's files say? */
#include "check.h"

#include <errno.h>
#include <string.h>

#include "made_up.h"
#include "sysfile.h"

static void start_with_memory(void)
{
	start();
	put("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree:  1024 kB\nMemAvailable:  4194304 kB\n");
}

TEST(available_memory)
{
	struct memory_room room;

	start_with_memory();
	CHECK_EQUAL(sysfile_memory_room(&room), 0);
	CHECK_EQUAL(room.bytes, 4294967296);
	CHECK(strstr(room.limit, "MemAvailable"));
	finish();
}

TEST(old_kernel)
{
	struct memory_room room;

	start_with_memory();
	put("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree:  1024 kB\n");
	CHECK_EQUAL(sysfile_memory_room(&room), 0);
	CHECK_EQUAL(room.bytes, 1048576);
	put("/proc/meminfo", "nothing\n");
	errno = 0;
	CHECK_EQUAL(sysfile_memory_room(&room), -1);
	CHECK_EQUAL(errno, ENODATA);
	finish();
}

TEST(version2_ancestor)
{
	struct memory_room room;

	start_with_memory();
	put("/proc/self/cgroup", "0::/a.slice/b.scope\n");
	put("/sys/fs/cgroup/a.slice/memory.max", "419430400\n");
	put("/sys/fs/cgroup/a.slice/memory.current", "104857600\n");
	put("/sys/fs/cgroup/a.slice/memory.stat", "anon 1\ninactive_file 4857600\n");
	put("/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
	put("/sys/fs/cgroup/a.slice/b.scope/memory.current", "5\n");
	CHECK_EQUAL(sysfile_memory_room(&room), 0);
	CHECK_EQUAL(room.bytes, 419430400 - (104857600 - 4857600));
	CHECK(strcmp(room.limit, "/sys/fs/cgroup/a.slice/memory.max") == 0);
	finish();
}

TEST(version1_in_container)
{
	struct memory_room room;

	/* Only the container's own part of the hierarchy is mounted. */
	start_with_memory();
	put("/proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/docker/abc/job\n0::/\n");
	put("/proc/self/mountinfo",
	    "30 24 0:26 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw\n"
	    "31 30 0:27 /docker/abc /mnt/mem rw shared:5 - cgroup cgroup rw,memory\n");
	put("/mnt/mem/job/memory.limit_in_bytes", "9223372036854771712\n");
	put("/mnt/mem/job/memory.usage_in_bytes", "1000\n");
	put("/mnt/mem/memory.limit_in_bytes", "3000000\n");
	put("/mnt/mem/memory.usage_in_bytes", "4000000\n");
	CHECK_EQUAL(sysfile_memory_room(&room), 0);
	CHECK_EQUAL(room.bytes, 0);
	CHECK(strcmp(room.limit, "/mnt/mem/memory.limit_in_bytes") == 0);
	finish();
}

TEST(numbers_and_lines)
{
	uint64_t number = 7;
	char line[16];

	start_with_memory();
	put("/sys/n", "12\n");
	put("/sys/max", "max\n");
	put("/sys/word", "word\n");
	put("/sys/empty", "");
	CHECK_EQUAL(sysfile_number(&number, "/sys/%s", "n"), 0);
	CHECK_EQUAL(number, 12);
	CHECK_EQUAL(sysfile_number(&number, "/sys/max"), -1);
	CHECK_EQUAL(errno, ERANGE);
	CHECK_EQUAL(sysfile_number(&number, "/sys/word"), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(sysfile_line(line, sizeof(line), "/sys/empty"), -1);
	CHECK_EQUAL(errno, ENODATA);
	CHECK_EQUAL(sysfile_line(line, sizeof(line), "/sys/none"), -1);
	CHECK_EQUAL(errno, ENOENT);
	CHECK_EQUAL(sysfile_line(line, sizeof(line), "/sys/word"), 0);
	CHECK(strcmp(line, "word") == 0);
	finish();
}

CHECK_MAIN
