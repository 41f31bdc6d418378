/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does an option's value say?  Functions that return text return the rest of it, or NULL
 * if the text is wrong.
 */
#ifndef TLBSIM_PARSE_H
#define TLBSIM_PARSE_H

#include "timing/config.h"
#include "tlb/level.h"

#include "pub_tool_basics.h"

/* Numbers separated by colons. */
const HChar *parse_numbers(const HChar *text, UInt count, ULong numbers[]);

/* A level of a TLB, "entries:ways". */
const HChar *parse_level(const HChar *text, struct tlb_geometry *level);

/* log2 of a page size in bytes, from 4096 on. */
const HChar *parse_page_size(const HChar *text, UInt *shift);

/* Change fields of a core, "name=value,name=value:value,..."; False: it has no such field. */
Bool parse_core(const HChar *text, struct timing_config *core);
/* Print the names of these fields for --help. */
void parse_print_core_fields(void);

#endif
