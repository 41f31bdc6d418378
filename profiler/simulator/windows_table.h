/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long did each window take?  The table "windows" in doc/format.md. */
#ifndef TLBSIM_WINDOWS_TABLE_H
#define TLBSIM_WINDOWS_TABLE_H

#include "pub_tool_basics.h"

/* Nothing, if there are no windows. */
void windows_table_write(const HChar *state);

#endif
