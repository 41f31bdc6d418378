/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which memory is an address in?  Looked up once for each base page, and kept
 * in a table of huge-page-sized regions until what is mapped there changes.
 */
#ifndef TLBSIM_MAPPINGS_H
#define TLBSIM_MAPPINGS_H

#include "mappings_resolve.h"

/* Nothing has missed yet; what is mapped stays. */
void mappings_start(void);
/* The mapping of an address; it is known from then on. */
struct mapping *mappings_find(ULong address);
/* A page of the mapping was walked to. */
void mappings_walked(ULong address);
/* What was mapped there is no longer, or is something else. */
void mappings_forget(ULong start, ULong end);

#endif
