/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In which order are the lines of a chain visited? */
#ifndef TLBCOST_ORDER_H
#define TLBCOST_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* The next number of a random sequence; *state is any seed. */
uint64_t order_random(uint64_t *state);

/* Fill order[0..n) with the numbers 0..n-1 in random order. */
void order_shuffle(uint32_t *order, size_t n, uint64_t *seed);

/* The same, as random as the layout's way of visiting allows. */
void order_lines(const struct layout *layout, uint32_t *order, size_t n, uint64_t *seed);

#endif
