/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is it a kernel that answers, or an emulator of user programs, which has no pages of its own? */
#ifndef TLBCOST_EMULATED_H
#define TLBCOST_EMULATED_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An emulator names the program as what runs, and the kernel below it the emulator. */
static inline int emulated(void)
{
	char program[4096], runs[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program));
	ssize_t m = readlink("/proc/thread-self/exe", runs, sizeof(runs));

	return n > 0 && m > 0 && (n != m || memcmp(program, runs, (size_t)n) != 0);
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
