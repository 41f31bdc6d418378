/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cpuid_raw.h"

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

/* No CPU has that many; a hypervisor's nonsense must not make us loop. */
#define MOST_SUBLEAVES 64

enum sequence {
	SINGLE,
	UNTIL_TYPE_0,	/* until the low five bits of eax, the type of cache, are 0 */
	COUNTED,	/* eax of the first is the number of the last */
};

static const struct {
	unsigned leaf;
	enum sequence sequence;
} leaves[] = {
	{ 0x2, SINGLE },
	{ 0x4, UNTIL_TYPE_0 },
	{ 0x18, COUNTED },
	{ 0x80000005, SINGLE },
	{ 0x80000006, SINGLE },
	{ 0x80000019, SINGLE },
	{ 0x8000001d, UNTIL_TYPE_0 },
	{ 0x80000021, SINGLE },
};

static void write_leaf(struct table *table, unsigned leaf, enum sequence sequence)
{
	unsigned eax, ebx, ecx, edx, last = sequence == SINGLE ? 0 : MOST_SUBLEAVES - 1;
	char key[48];

	for (unsigned subleaf = 0; subleaf <= last; subleaf++) {
		if (!__get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx))
			return;
		if (sequence == UNTIL_TYPE_0 && (eax & 0x1f) == 0)
			return;
		if (sequence == COUNTED && subleaf == 0 && eax < last)
			last = eax;
		snprintf(key, sizeof(key), "cpuid_%x_%x", leaf, subleaf);
		table_key(table, key, "%08x %08x %08x %08x", eax, ebx, ecx, edx);
	}
}

void cpuid_raw_write(struct table *table)
{
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
		write_leaf(table, leaves[i].leaf, leaves[i].sequence);
}

#else

void cpuid_raw_write(struct table *table)
{
	(void)table;
}

#endif
