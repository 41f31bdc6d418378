/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole run is counted in stretches, one after the other.  A part of each is timed, at a random
 * place; all of the first one, which nothing comes before.
 */
#ifndef TLBCOST_COPIES_STRETCH_H
#define TLBCOST_COPIES_STRETCH_H

struct windows;

/* One begins now. */
void stretch_begin(struct windows *windows);

/* Something was executed: what is to be done for it, or for the next one. */
void stretch_continue(struct windows *windows);

#endif
