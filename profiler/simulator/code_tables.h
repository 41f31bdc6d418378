/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which code missed?  The tables "code", "stacks" and "frames" in doc/format.md,
 * and the numbers by which tables refer to stacks.
 */
#ifndef TLBSIM_CODE_TABLES_H
#define TLBSIM_CODE_TABLES_H

#include "pub_tool_basics.h"
#include "pub_tool_execontext.h"

/* Before any table of a state is written: stacks have no numbers. */
void code_tables_start(void);
/* The number of a stack in the table "frames"; NO_NAME for NULL. */
UInt stack_number(ExeContext *stack);
void code_tables_write(const HChar *state);

#endif
