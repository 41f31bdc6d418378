/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Free text belongs in a table's header: names that its cells refer to by
 * their numbers, and the source lines of code by the debug information of its object.
 */
#ifndef TLBSIM_NAMES_H
#define TLBSIM_NAMES_H

#include "pub_tool_basics.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcprint.h"

#define NO_NAME (~0u)

struct names {
	HChar **text;
	UInt count, capacity;
	UInt *slots;		/* 0: empty, else a name's number + 1 */
};

/* The number of this text; NO_NAME for NULL. */
UInt names_number(struct names *names, const HChar *text);
void names_free(struct names *names);

/* Write "# name_<n>: <text>" for each. */
void names_write(const struct names *names, VgFile *file);

/* Write a tab and the number, or NA. */
void names_cell(VgFile *file, UInt number);

/* One line of code; NO_NAME and 0: not known. */
struct code_line {
	UInt object, function, file, line;
};

/* More functions than that are rarely inlined into each other. */
#define MOST_INLINED 16u

/* The lines of an instruction: the innermost inlined function first.  Returns how many, at least 1. */
UInt names_lines(struct names *names, DiEpoch epoch, Addr address,
		 struct code_line lines[MOST_INLINED]);

#endif
