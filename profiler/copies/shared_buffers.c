/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shared_buffers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "area.h"
#include "following.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u	/* Linux 6.3 */
#endif

#define SHARED_BYTES ((size_t)AREA_BUFFERS * AREA_BUFFER_STEP)

/* Beyond this limit a file that grows is a signal. */
static bool may_grow(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SHARED_BYTES;
}

/* An unnamed file of the program; below 0: it cannot have one. */
static int64_t make_file(struct following *following)
{
	/* Its name is the empty string that the area begins with. */
	uint64_t arguments[6] = { following->translator->area, MFD_CLOEXEC | MFD_NOEXEC_SEAL };
	int64_t fd = following_call(following, SYS_memfd_create, arguments);

	if (fd != -EINVAL)
		return fd;
	arguments[1] = MFD_CLOEXEC;
	return following_call(following, SYS_memfd_create, arguments);
}

/*
 * Map the program's file here.  All of its memory is allocated first: if some were missing later,
 * the program would get SIGBUS.  MAP_FAILED: it is not possible.
 */
static void *map_here(pid_t pid, int64_t number)
{
	void *memory = MAP_FAILED;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return memory;
	if (may_grow() && fallocate(fd, 0, 0, (off_t)SHARED_BYTES) == 0)
		memory = mmap(NULL, SHARED_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return memory;
}

/* Over the buffers that the area has; their guards remain.  Below 0: what was there may be gone. */
static int64_t map_there(struct following *following, int64_t fd)
{
	const uint64_t begin = following->translator->area + AREA_BUFFER;
	int64_t mapped = 0;

	for (uint64_t at = 0; at < SHARED_BYTES && mapped >= 0; at += AREA_BUFFER_STEP) {
		const uint64_t mapping[6] = { begin + at, AREA_BUFFER_BYTES, PROT_READ | PROT_WRITE,
					      MAP_SHARED | MAP_FIXED, (uint64_t)fd, at };

		mapped = following_call(following, SYS_mmap, mapping);
	}
	return mapped;
}

int shared_buffers_map(struct following *following)
{
	const int64_t fd = make_file(following);
	const uint64_t file[6] = { (uint64_t)fd };
	int64_t mapped = 0;
	void *memory;

	if (fd < 0)
		return errno == ESRCH ? -1 : 0;
	memory = map_here(following->copy->pid, fd);
	if (memory != MAP_FAILED) {
		following->stream.shared = memory;
		mapped = map_there(following, fd);
	}
	if (following_call(following, SYS_close, file) < 0)
		return -1;
	return mapped < 0 ? -1 : 0;
}

void shared_buffers_unmap(struct stream *stream)
{
	if (stream->shared)
		munmap((void *)(uintptr_t)stream->shared, SHARED_BYTES);
	stream->shared = NULL;
}
