/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How are the huge pages that a program got reported? */
#ifndef TLBCOST_THP_TABLE_H
#define TLBCOST_THP_TABLE_H

#include "tracer.h"

/*
 * Write the 'thp' table of doc/format.md; nothing if path is NULL.  The program
 * ended with this wait status, unless exec_errno says that it did not start.
 * Returns 0, or -1 with errno.
 */
int thp_table_write(const char *path, const struct tracer *tracer, int status, int exec_errno);

#endif
