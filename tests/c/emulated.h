/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is it a kernel that answers, or an emulator of user programs, which has no pages of its own? */
#ifndef TLBCOST_EMULATED_H
#define TLBCOST_EMULATED_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* An emulator accepts advice that does not exist, and passes none on. */
static inline int emulated(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int taken = memory != MAP_FAILED && madvise(memory, page, 0x7fff) == 0;

	if (memory != MAP_FAILED)
		munmap(memory, page);
	return taken;
}

/* An emulator may tell another size of base pages than the kernel below it has. */
static inline int base_page_is_real(void)
{
	/* QEMU makes up that of "self". */
	FILE *smaps = fopen("/proc/thread-self/smaps", "re");
	unsigned long kib = 0;
	char line[512];

	while (smaps && fgets(line, sizeof(line), smaps) &&
	       sscanf(line, "KernelPageSize: %lu kB", &kib) != 1)
		;
	if (smaps)
		fclose(smaps);
	return kib << 10 == (unsigned long)sysconf(_SC_PAGESIZE);
}

#define SKIP_IF_EMULATED()                                                          \
	do {                                                                        \
		if (emulated())                                                     \
			CHECK_SKIP("an emulator passes no wish for huge pages on"); \
	} while (0)

#define SKIP_UNLESS_BASE_PAGE_IS_REAL()                                                  \
	do {                                                                             \
		if (!base_page_is_real())                                                \
			CHECK_SKIP("the base page size is the emulator's, not the kernel's"); \
	} while (0)

#endif
