/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the tail keep the last words, and say so where they cannot be saved? */
#include "check.h"

#include <errno.h>
#include <string.h>

#include "saved.h"

/* Pieces of every size around the ring's own, against a plain long buffer. */
TEST(tail_keeps_the_last_bytes)
{
	static const size_t pieces[] = { 1, 7, 4095, 4096, 4097, 10000 };
	static char all[8 * 10000];
	static char bytes[TAIL_BYTES + 1];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)(i * 31 + i / 256);
	for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
		struct tail tail = { 0 };
		size_t total = 0;

		while (total + pieces[p] <= sizeof(all)) {
			tail_add(&tail, all + total, pieces[p]);
			total += pieces[p];
		}
		CHECK(total > TAIL_BYTES);
		CHECK_EQUAL(saved(&tail, bytes, sizeof(bytes)), TAIL_BYTES);
		CHECK(memcmp(bytes, all + total - TAIL_BYTES, TAIL_BYTES) == 0);
	}
}

TEST(tail_reports_what_cannot_be_written)
{
	struct tail tail = { 0 };

	tail_add(&tail, "x", 1);
	CHECK_EQUAL(tail_save(&tail, "/nonexistent/file"), -1);
	CHECK_EQUAL(errno, ENOENT);
}

CHECK_MAIN
