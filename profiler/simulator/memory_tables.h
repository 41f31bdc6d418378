/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which memory missed, and when?  The tables "mappings" and "phases" in
 * doc/format.md.
 */
#ifndef TLBSIM_MEMORY_TABLES_H
#define TLBSIM_MEMORY_TABLES_H

#include "pub_tool_basics.h"

void memory_tables_write(const HChar *state);

#endif
