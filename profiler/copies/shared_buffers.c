/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shared_buffers.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "area.h"
#include "following.h"

#define SHARED_BYTES ((size_t)AREA_BUFFERS * AREA_BUFFER_STEP)

/* Beyond this limit a file that grows is a signal. */
static bool may_grow(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SHARED_BYTES;
}

/* The program's file, here.  MAP_FAILED: it cannot be. */
static void *map_here(pid_t pid, int64_t number)
{
	void *memory = MAP_FAILED;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return memory;
	if (may_grow() && ftruncate(fd, (off_t)SHARED_BYTES) == 0)
		memory = mmap(NULL, SHARED_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return memory;
}

void shared_buffers_map(struct following *following)
{
	const uint64_t area = following->translator->area;
	/* Its name is the empty string that the area begins with. */
	const uint64_t name[6] = { area, MFD_CLOEXEC };
	const int64_t fd = following_call(following, SYS_memfd_create, name);
	const uint64_t file[6] = { (uint64_t)fd };
	const uint64_t mapping[6] = { area + AREA_BUFFER, SHARED_BYTES, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, (uint64_t)fd, 0 };
	void *memory;

	if (fd < 0)
		return;
	memory = map_here(following->copy->pid, fd);
	if (memory != MAP_FAILED) {
		following->stream.shared = memory;
		if (following_call(following, SYS_mmap, mapping) < 0)
			shared_buffers_unmap(&following->stream);
	}
	following_call(following, SYS_close, file);
}

void shared_buffers_unmap(struct stream *stream)
{
	if (stream->shared)
		munmap((void *)(uintptr_t)stream->shared, SHARED_BYTES);
	stream->shared = NULL;
}
