/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "recency.h"

/* References in one step of time. */
#define STEP_SHIFT 8u

static uint32_t stamp(uint64_t time)
{
	return (uint32_t)(time >> STEP_SHIFT) + 1;
}

struct recency_ages recency_look(const struct recency *recency, uint64_t page,
				 uint64_t time)
{
	const uint64_t number = page / RECENCY_PAGES;
	const uint64_t place = number % RECENCY_BLOCKS;
	const uint32_t *walked = recency->walked[place];
	const uint32_t own = walked[page % RECENCY_PAGES];
	uint32_t last = 0;

	if (recency->block[place] != (uint32_t)number)
		return (struct recency_ages){ 0, 0 };
	for (uint32_t i = 0; i < RECENCY_PAGES; i++)
		last = walked[i] > last ? walked[i] : last;
	return (struct recency_ages){
		.page = own ? (uint64_t)(stamp(time) - own) << STEP_SHIFT : 0,
		.line = last ? (uint64_t)(stamp(time) - last) << STEP_SHIFT : 0,
	};
}

bool recency_lost(const struct recency *recency, uint64_t page)
{
	const uint64_t number = page / RECENCY_PAGES;
	const uint64_t place = number % RECENCY_BLOCKS;
	const uint32_t *walked = recency->walked[place];
	uint32_t any = 0;

	for (uint32_t i = 0; i < RECENCY_PAGES; i++)
		any |= walked[i];
	return any && recency->block[place] != (uint32_t)number;
}

void recency_walk(struct recency *recency, uint64_t page, uint64_t time)
{
	const uint64_t number = page / RECENCY_PAGES;
	const uint64_t place = number % RECENCY_BLOCKS;
	uint32_t *walked = recency->walked[place];

	if (recency->block[place] != (uint32_t)number) {
		recency->block[place] = (uint32_t)number;
		for (uint32_t i = 0; i < RECENCY_PAGES; i++)
			walked[i] = 0;
	}
	walked[page % RECENCY_PAGES] = stamp(time);
}
