/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is the sum of a run's records? */
#ifndef TLBCOST_COUNTERS_PROFILE_H
#define TLBCOST_COUNTERS_PROFILE_H

#include "accesses.h"
#include "hits.h"
#include "mappings.h"
#include "sampler.h"

/* Zeroed but for the first five, it is empty. */
struct profile {
	const struct sampler *sampler;		/* whose events the records are of */
	int addresses;				/* samples have the address of their data */
	int one_by_one;				/* they are kept as accesses, not as hits */
	int user_only, kernel_only;		/* for events that count in all modes */
	struct mappings mappings;
	struct hits hits;
	struct accesses accesses;
	uint64_t samples;	/* of all modes, with an address or without */
	uint64_t lost;		/* records that did not fit a buffer */
	uint64_t throttled;	/* times that the kernel stopped an event */
	uint64_t damaged_bytes;	/* that were not records */
	uint64_t failed;	/* records lost here because memory ran out */
};

/*
 * Read the kernel's modules, if this user may see where they are, and the mappings of a
 * process, (-1) of all or (0) of none.  Returns 0, or -1 with errno ENOMEM.
 */
int profile_begin(struct profile *profile, pid_t pid);

/* Process a record.  They come in order; see rounds_use. */
void profile_record(const void *bytes, size_t size, void *profile);

/* Free the mappings, the hits and the accesses. */
void profile_free(struct profile *profile);

#endif
