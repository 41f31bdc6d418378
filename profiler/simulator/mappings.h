/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which memory is an address in?  Looked up once for each base page, and kept
 * in a table of huge-page-sized regions until what is mapped there changes.
 */
#ifndef TLBSIM_MAPPINGS_H
#define TLBSIM_MAPPINGS_H

#include "mappings_resolve.h"

/* Start with no misses; mappings remain. */
void mappings_start(void);
/* The mapping of an address; it is known from then on. */
struct mapping *mappings_find(ULong address);
/* A walk for a page of the mapping. */
void mappings_walked(ULong address);
/* The mapping there is gone, or has changed. */
void mappings_forget(ULong start, ULong end);

#endif
