/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int parse_size(const char *text, size_t *bytes)
{
	static const char suffixes[] = "kmg";
	unsigned long long n;
	unsigned shift = 0;
	const char *suffix;
	char *end;

	/* strtoull() would read "-1" as 18446744073709551615 bytes. */
	if (!isdigit((unsigned char)text[0])) {
		errno = EINVAL;
		return -1;
	}
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -1;
	if (*end) {
		suffix = strchr(suffixes, tolower((unsigned char)*end));
		if (!suffix || end[1]) {
			errno = EINVAL;
			return -1;
		}
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (n > SIZE_MAX >> shift) {
		errno = ERANGE;
		return -1;
	}
	*bytes = (size_t)n << shift;
	return 0;
}
