/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are byte counts on the command line read as their users mean them? */
#include "check.h"

#include <errno.h>
#include <stdint.h>

#include "size.h"

static const struct {
	int line;
	const char *text;
	int rc, err;
	size_t bytes;
} cases[] = {
#define OK(text, bytes) { __LINE__, text, 0, 0, bytes }
#define BAD(text, err) { __LINE__, text, -1, err, 0 }
	OK("0", 0),
	OK("4096", 4096),
	OK("64k", 64u << 10),
	OK("2M", 2u << 20),
	OK("3g", (size_t)3 << 30),
	OK("18446744073709551615", SIZE_MAX),
	OK("17179869183G", (size_t)17179869183u << 30),
	BAD("", EINVAL),
	BAD("-1", EINVAL),
	BAD("+1", EINVAL),
	BAD(" 1", EINVAL),
	BAD("1kk", EINVAL),
	BAD("1k ", EINVAL),
	BAD("1t", EINVAL),
	BAD("0x10", EINVAL),
	BAD("20000000000g", ERANGE),
	BAD("18446744073709551616", ERANGE),
};

TEST(reads_every_row)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes = 0;
		int rc;

		errno = 0;
		rc = parse_size(cases[i].text, &bytes);
		if (rc != cases[i].rc || (rc && errno != cases[i].err) || bytes != cases[i].bytes)
			printf("# row at line %d\n", cases[i].line);
		CHECK_EQUAL(rc, cases[i].rc);
		CHECK(bytes == cases[i].bytes);
		if (rc)
			CHECK_EQUAL(errno, cases[i].err);
	}
}

CHECK_MAIN
