/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All copies that are alive: reports of their workers, their deaths and what these cost. */
#ifndef TLBCOST_COPIES_SAMPLED_COPIES_H
#define TLBCOST_COPIES_SAMPLED_COPIES_H

#include "sampling_state.h"

/* Record what the last copies' pages have cost since their death. */
void sampled_copies_settle(struct sampling *sampling);

/* Process the workers' reports. */
void sampled_copies_hear(struct sampling *sampling);

/*
 * Kill those whose process has ended, or executes another program, and those whose workers get no
 * CPU time: others will take their place.
 */
void sampled_copies_check(struct sampling *sampling);

/* Kill those of a process; NULL: all. */
void sampled_copies_kill(struct sampling *sampling, const struct process *process);

bool sampled_copies_alive(const struct sampling *sampling);

/* At the end: let the programs reap the dead ones. */
void sampled_copies_reap(struct sampling *sampling);

#endif
