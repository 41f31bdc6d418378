/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How are the records of one CPU fetched from the kernel? */
#ifndef TLBCOST_COUNTERS_RING_H
#define TLBCOST_COUNTERS_RING_H

#include <stddef.h>

/* The buffer that the kernel writes the records of a CPU to.  Fields are private. */
struct ring {
	void *memory;		/* the control page, then the data */
	size_t page_bytes, data_bytes;
};

/*
 * Map the buffer of an event that was opened for one CPU: `data_bytes`, a power
 * of two of pages, or as much as the kernel allows this user to lock.
 * Returns 0, or -1 with errno (EPERM: not even one page).
 */
int ring_map(struct ring *ring, int fd, size_t data_bytes);

/* Unmap it; the event writes nothing any more.  Safe on a zeroed ring. */
void ring_unmap(struct ring *ring);

/* Bytes of records ready to be fetched. */
size_t ring_waiting(const struct ring *ring);

/*
 * Fetch the next `size` bytes, at most ring_waiting() of them, and free their space for the
 * kernel.  They need not end with a record unless they are all.
 */
void ring_take(struct ring *ring, void *to, size_t size);

#endif
