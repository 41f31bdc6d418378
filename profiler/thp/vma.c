/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vma.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Since Linux 6.11; headers of the C library may be older. */
struct query {
	uint64_t size, flags, address, start, end, vma_flags, page_bytes, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY _IOWR('f', 17, struct query)
enum { QUERY_WRITABLE = 2, QUERY_EXECUTABLE = 4, QUERY_SHARED = 8 };

int vma_parse(const char *line, struct vma *vma)
{
	char rights[5], name[16] = "";
	uint64_t start, end, inode;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64 " %15s", &start, &end,
		   rights, &inode, name) < 4)
		return 0;
	vma->start = start;
	vma->end = end;
	vma->writable = rights[1] == 'w';
	vma->executable = rights[2] == 'x';
	vma->shared = rights[3] == 's';
	vma->stack = strncmp(name, "[stack", 6) == 0;
	vma->anonymous = inode == 0 && name[0] != '/' && strncmp(name, "[v", 2) != 0;
	return 1;
}

FILE *vma_open(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	return fopen(path, "re");
}

int vma_next(FILE *maps, struct vma *vma)
{
	/* A longer name comes in pieces, of which the others are no lines. */
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (vma_parse(line, vma))
			return 1;
	return 0;
}

static int find_in_list(pid_t pid, uint64_t address, struct vma *vma)
{
	FILE *maps = vma_open(pid);
	int found;

	if (!maps)
		return 0;
	do
		found = vma_next(maps, vma);
	while (found && vma->end <= address);
	fclose(maps);
	return found && vma->start <= address;
}

int vma_find(pid_t pid, uint64_t address, struct vma *vma)
{
	struct query query = { .size = sizeof(query), .address = address };
	char path[32];
	int fd, rc;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	rc = ioctl(fd, QUERY, &query);
	close(fd);
	if (rc < 0)
		return find_in_list(pid, address, vma);
	vma->start = query.start;
	vma->end = query.end;
	vma->writable = (query.vma_flags & QUERY_WRITABLE) != 0;
	vma->executable = (query.vma_flags & QUERY_EXECUTABLE) != 0;
	vma->shared = (query.vma_flags & QUERY_SHARED) != 0;
	vma->anonymous = query.inode == 0;
	vma->stack = 0;
	return 1;
}
