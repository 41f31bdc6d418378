/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the kernel's sampling buffers read whatever is in them? */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "profile.h"
#include "rounds.h"

/* The first byte says how samples look and where rounds of reading end. */
enum { ADDRESSES = 1, USER_ONLY = 2, ROUND_BYTES = 64 };

void fuzz_records(const uint8_t *bytes, size_t size)
{
	struct sampled_event event = { .name = "walks", .period = 1000, .all_modes = 1 };
	struct sampler_counter counter = { .id = 7, .event = 0 };
	const struct sampler sampler = {
		.events = &event, .event_count = 1, .counters = &counter, .count = 1,
	};
	struct profile profile = { .sampler = &sampler };
	struct rounds rounds = { 0 };
	size_t round;

	if (!size)
		return;
	profile.addresses = bytes[0] & ADDRESSES;
	profile.user_only = !!(bytes[0] & USER_ONLY);
	round = ROUND_BYTES * (1 + (size_t)(bytes[0] >> 2));
	/* Nothing of this machine's processes is looked up. */
	setenv("TLBCOST_ROOT", "/nonexistent", 1);
	for (size_t at = 1; at < size; at += round) {
		size_t n = size - at < round ? size - at : round;
		void *to = rounds_room(&rounds, n);

		if (!to)
			abort();
		memcpy(to, bytes + at, n);
		if (rounds_add(&rounds, n, profile.addresses) < 0)
			abort();
		rounds_flush(&rounds, at + n == size, profile_record, &profile);
	}
	if (profile.failed)
		abort();
	rounds_free(&rounds);
	profile_free(&profile);
}
