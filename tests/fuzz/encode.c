/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is every SPEC of an event either encoded or refused with a reason? */
#include "encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "size.h"
#include "fuzz.h"

void fuzz_encode(const uint8_t *bytes, size_t size)
{
	struct encoding encoding = { .precise = -1 };
	char why[64], *spec = malloc(size + 1);
	size_t parsed;

	if (!spec)
		abort();
	memcpy(spec, bytes, size);
	spec[size] = '\0';
	why[0] = '\0';
	errno = 0;
	if (encode_event(spec, &encoding, why, sizeof(why)) == 0) {
		if (encoding.precise < 0 || encoding.precise > 3)
			abort();
	} else if (!errno || !memchr(why, '\0', sizeof(why)) || !*why) {
		abort();
	}
	(void)parse_size(spec, &parsed);
	free(spec);
}
