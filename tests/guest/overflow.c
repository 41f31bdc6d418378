/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does the emulated machine interrupt when a counter overflows?  Asks the kernel
 * alone, so that samples that tlbcost-record loses are not taken for the
 * emulator's: in QEMU 10 the enable bit of this interrupt cannot be set, though
 * the kernel believes that there is one.
 */
#include <err.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 4096, PERIOD = 100 };

int main(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_HW_CACHE,
		.config = PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_RESULT_MISS << 16,
		.sample_type = PERF_SAMPLE_IP, .sample_period = PERIOD, .exclude_kernel = 1,
	};
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	const struct perf_event_mmap_page *ring;
	volatile const char *pages;
	unsigned sum = 0;

	if (fd < 0)
		err(1, "perf_event_open");
	ring = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pages = mmap(NULL, PAGES * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED || pages == MAP_FAILED)
		err(1, "mmap");
	/* The first load of each page misses. */
	for (size_t i = 0; i < PAGES; i++)
		sum += (unsigned char)pages[i * page];
	puts(ring->data_head && !sum ? "yes" : "no");
	return 0;
}
