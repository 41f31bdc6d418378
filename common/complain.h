/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do the programs say what failed, and with which code do they exit? */
#ifndef TLBCOST_COMPLAIN_H
#define TLBCOST_COMPLAIN_H

/* Exit code: this machine, or this user, cannot measure what was requested. */
enum { EXIT_CANNOT_MEASURE = 4 };

/*
 * Print "tlbcost: what: why" and, unless it is NULL, "tlbcost: hint: hint" (what to
 * type) on standard error.  Returns `code`, an exit code.
 */
int complain(int code, const char *what, const char *why, const char *hint);

#endif
