/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When is an address translated?  The engine's TLB model sees the whole run and decides which
 * references miss; here the misses take time.
 *
 * A walk needs a walker.  It reads the tables' entries one after the other, through the data
 * caches: the last level's always, the directory's if the directory cache does not have it.
 * Under a hypervisor each address that the guest's tables give is looked up in the host's
 * tables as well.
 */
#ifndef TLBCOST_TIMING_TRANSLATION_H
#define TLBCOST_TIMING_TRANSLATION_H

#include "memory.h"
#include "recency.h"

enum miss { MISS_NONE, MISS_STLB_HIT, MISS_WALK };

#define TRANSLATION_SLOTS 1024u

/*
 * How long ago the last walks to an address's page and line were, for base and for huge pages.
 */
struct walk_ages {
	struct recency_ages base, huge;
};

/* A page whose translation is or recently was requested. */
struct translation_slot {
	uint64_t page;
	ticks ready;
	enum miss miss;		/* seen by the next reference */
	bool aged;		/* the ages are known */
	struct walk_ages ages;
};

/* Page directories whose entries need not be read, by last use. */
#define MOST_DIRECTORIES 2048u

struct directories {
	uint64_t entry[MOST_DIRECTORIES];	/* sets x ways */
	uint32_t sets, ways;			/* ways 0: there is no such cache */
};

struct translation {
	const struct timing_config *config;
	struct memory *memory;
	struct calendar walkers;
	struct translation_slot slots[TRANSLATION_SLOTS];
	struct directories guest, host, tables;
	/* Entries for 1 GiB and 512 GiB: see config.h. */
	struct directories pointers, roots;
	uint32_t base_shift, huge_shift;
	uint32_t page_shift;	/* of the page tables' pages */
	uint32_t entry_shift;	/* of what a TLB entry covers */
	bool huge;
	/* Of 2^32 base pages, this many have scattered frames. */
	uint64_t isolated_share;
};

/*
 * `base_shift`, `huge_shift`: log2 of the sizes of pages; `huge`: memory is on
 * huge pages.
 */
void translation_init(struct translation *translation,
		      const struct timing_config *config,
		      struct memory *memory, uint32_t base_shift,
		      uint32_t huge_shift, bool huge);

/* The next reference to the page at `address` misses. */
void translation_missed(struct translation *translation, uint64_t address,
			enum miss miss);

/* The same for a walk whose entries' ages are known. */
void translation_walked(struct translation *translation, uint64_t address,
			const struct walk_ages *ages);

/* The address is accessed at this time; returns when it is translated. */
ticks translate(struct translation *translation, uint64_t address, ticks time);

#endif
