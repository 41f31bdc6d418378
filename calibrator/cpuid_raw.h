/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does the CPU, or the hypervisor, report about its caches and TLBs? */
#ifndef TLBCOST_CPUID_RAW_H
#define TLBCOST_CPUID_RAW_H

#include "table.h"

/*
 * Write the raw registers of the x86 leaves that describe caches and TLBs as keys
 * cpuid_<leaf>_<subleaf> of a table's header; nothing on other CPUs.
 */
void cpuid_raw_write(struct table *table);

#endif
