/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do the records of a run add up to? */
#ifndef TLBCOST_COUNTERS_PROFILE_H
#define TLBCOST_COUNTERS_PROFILE_H

#include "hits.h"
#include "mappings.h"
#include "sampler.h"

/* Zeroed but for the first four, it is empty. */
struct profile {
	const struct sampler *sampler;		/* whose events the records are of */
	int addresses;				/* samples tell that of their data */
	int user_only, kernel_only;		/* for events that count in all modes */
	struct mappings mappings;
	struct hits hits;
	uint64_t lost;		/* records that found no room in a buffer */
	uint64_t throttled;	/* times that the kernel stopped an event */
	uint64_t damaged_bytes;	/* that were no records */
	uint64_t failed;	/* records that found no memory here */
};

/*
 * Learn the kernel's modules, as far as this user may see where they are, and
 * the mappings of a process, (-1) of all or (0) of none.  Returns 0, or -1 with errno ENOMEM.
 */
int profile_begin(struct profile *profile, pid_t pid);

/* Take a record in.  They come in order; see rounds_use. */
void profile_record(const void *bytes, size_t size, void *profile);

/* Free the mappings and the hits. */
void profile_free(struct profile *profile);

#endif
