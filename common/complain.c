/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "complain.h"

#include <stdio.h>

int complain(int code, const char *what, const char *why, const char *hint)
{
	fprintf(stderr, "tlbcost: %s: %s\n", what, why);
	if (hint)
		fprintf(stderr, "tlbcost: hint: %s\n", hint);
	return code;
}
