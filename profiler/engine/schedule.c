/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "schedule.h"

static uint64_t random_below(struct schedule *schedule, uint64_t limit)
{
	/* Marsaglia's xorshift64. */
	schedule->random ^= schedule->random << 13;
	schedule->random ^= schedule->random >> 7;
	schedule->random ^= schedule->random << 17;
	return schedule->random % limit;
}

void schedule_start(struct schedule *schedule, uint64_t now, uint64_t period,
		    uint64_t length)
{
	*schedule = (struct schedule){
		.origin = now,
		.period = period,
		.length = length,
		.random = UINT64_C(88172645463325252),
	};
}

uint64_t schedule_next(struct schedule *schedule, uint64_t now)
{
	const uint64_t places = schedule->period - schedule->length + 1;
	uint64_t opens;

	do
		opens = schedule->origin +
			schedule->periods++ * schedule->period +
			random_below(schedule, places);
	while (opens < now);
	return opens;
}

uint64_t schedule_double(struct schedule *schedule)
{
	schedule->period *= 2;
	schedule->periods = (schedule->periods + 1) / 2;
	return random_below(schedule, 2);
}
