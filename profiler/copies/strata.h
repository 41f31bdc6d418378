/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program's CPU time is divided into strata.  Each has one random instant, at which a thread is
 * copied, and a row with the result.
 */
#ifndef TLBCOST_COPIES_STRATA_H
#define TLBCOST_COPIES_STRATA_H

#include "sampling_state.h"

/* A stratum begins at this time of the program's CPU time; its instant is drawn. */
void strata_next(struct sampling *sampling, uint64_t begin_ns);

/* The last row's stratum is over: record its user time. */
void strata_close(struct sampling *sampling);

/*
 * The instant is over, with this result.  Returns its row; or NULL if there is no memory for one,
 * and there are no more copies.
 */
struct copies_row *strata_conclude(struct sampling *sampling, const char *result);

/* Memory grew, and a copy would cost far more than the stratum allows: give up the rest of it. */
bool strata_too_dear(struct sampling *sampling, uint64_t bytes);

#endif
