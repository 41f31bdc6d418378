/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many bytes does "64k" on a command line mean? */
#ifndef TLBCOST_SIZE_H
#define TLBCOST_SIZE_H

#include <stddef.h>

/*
 * Read a byte count: decimal digits and at most one suffix of k, M or G
 * (powers of 1024, either case).  No sign, no blanks, nothing after.
 * Returns 0, or -1 with errno set to EINVAL or ERANGE; *bytes is then unchanged.
 */
int parse_size(const char *text, size_t *bytes);

#endif
