/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int ring_map(struct ring *ring, int fd, size_t data_bytes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	memset(ring, 0, sizeof(*ring));
	for (; data_bytes >= page_bytes; data_bytes /= 2) {
		/* Writable, so that the kernel does not overwrite what we have not fetched. */
		void *memory = mmap(NULL, page_bytes + data_bytes,
				    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (memory != MAP_FAILED) {
			*ring = (struct ring){ memory, page_bytes, data_bytes };
			return 0;
		}
		if (errno != EPERM && errno != ENOMEM)
			return -1;
	}
	return -1;
}

void ring_unmap(struct ring *ring)
{
	if (ring->memory)
		munmap(ring->memory, ring->page_bytes + ring->data_bytes);
	memset(ring, 0, sizeof(*ring));
}

size_t ring_waiting(const struct ring *ring)
{
	const struct perf_event_mmap_page *page = ring->memory;
	/* Records up to the head are complete before the head is seen. */
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);

	return (size_t)(head - page->data_tail);
}

void ring_take(struct ring *ring, void *to, size_t size)
{
	struct perf_event_mmap_page *page = ring->memory;
	const unsigned char *data = (const unsigned char *)ring->memory + ring->page_bytes;
	uint64_t tail = page->data_tail;
	size_t from = (size_t)(tail & (ring->data_bytes - 1));
	size_t first = ring->data_bytes - from < size ? ring->data_bytes - from : size;

	memcpy(to, data + from, first);
	memcpy((unsigned char *)to + first, data, size - first);
	/* Only after copying: the kernel overwrites everything behind the tail. */
	__atomic_store_n(&page->data_tail, tail + size, __ATOMIC_RELEASE);
}
