/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does one chain cost, beside its packed one? */
#ifndef TLBCOST_RUNG_H
#define TLBCOST_RUNG_H

#include "ground.h"
#include "groups.h"
#include "machine.h"
#include "samples.h"

struct rung {
	const struct group *group;
	const struct page_kind *pages;
	const struct series *series;
	struct ground *ground;
	size_t lines;
	unsigned number;	/* of the sweep: the chain that begins changes with it */
};

/*
 * Time one rung in every way of the group, and add the samples.  Returns 0, or -1
 * with errno set: as samples_add(), pair_time() and, for jumps, code_link().
 */
int rung_time(const struct rung *rung, struct machine *machine, struct samples *samples);

#endif
