/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens to one copy, from the instant that was drawn for it to its death? */
#ifndef TLBCOST_COPIES_SAMPLED_COPY_H
#define TLBCOST_COPIES_SAMPLED_COPY_H

#include "sampling_state.h"

/* A stratum begins at this time of the program's CPU time; its instant is drawn. */
void sampled_next_stratum(struct sampling *sampling, uint64_t begin_ns);

/* The last row's stratum is over: how much of it was user time is in its row. */
void sampled_close_stratum(struct sampling *sampling);

/* What the last copies' pages cost since their death is in their rows. */
void sampled_copies_settle(struct sampling *sampling);

/* The instant has come: copy a thread, if one runs; else the instant stays. */
void sampled_copy_take(struct sampling *sampling);

/* Something of this descriptor is to be heard of.  Returns 0, or -1 with errno. */
int sampling_watch(const struct sampling *sampling, int fd);

/* Take in what the workers say. */
void sampled_copies_hear(struct sampling *sampling);

/*
 * Kill those whose process has ended, or executes another program, and those whose workers get no
 * CPU time: others will take their place.
 */
void sampled_copies_check(struct sampling *sampling);

/* Kill those of a process; NULL: all. */
void sampled_copies_kill(struct sampling *sampling, const struct process *process);

bool sampled_copies_alive(const struct sampling *sampling);

/* At the end: have the programs reap those that are dead. */
void sampled_copies_reap(struct sampling *sampling);

#endif
