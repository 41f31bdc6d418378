/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do records get out of the kernel's buffers while the program runs? */
#ifndef TLBCOST_COUNTERS_DRAIN_H
#define TLBCOST_COUNTERS_DRAIN_H

#include "rounds.h"
#include "profile.h"
#include "sampler.h"

/* Empties the buffers into a profile.  Only `fd` is public. */
struct drain {
	int fd;			/* readable when drain_ready() should be called */
	int timer;
	struct sampler *sampler;
	struct profile *profile;
	struct rounds rounds;
};

/* Begin, with a sampler that is open.  Returns 0, or -1 with errno. */
int drain_open(struct drain *drain, struct sampler *sampler, struct profile *profile);

/* Empty the buffers.  Returns 0; records without memory are counted in the profile. */
int drain_ready(void *drain);

/* Stop sampling and process the rest. */
void drain_close(struct drain *drain);

#endif
