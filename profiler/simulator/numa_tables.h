/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread accessed memory for which page, and which touched it first?  The
 * tables "placement" and "touches" in doc/format.md.
 */
#ifndef TLBSIM_NUMA_TABLES_H
#define TLBSIM_NUMA_TABLES_H

#include "pub_tool_basics.h"

/* Nothing, if the NUMA model saw no references. */
void numa_tables_write(const HChar *state);

#endif
