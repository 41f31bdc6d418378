/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many rows of a table have this and that, but not the other?  An index
 * has a bit of each row for each property; a question reads the bitmaps of
 * four properties side by side, from their beginnings to their ends.
 */
#include "workload.h"

#define ASKED 4u

static uint64_t ones(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return word * 0x0101010101010101u >> 56;
}

/* Each property has its own share of rows: a half, a quarter or an eighth. */
static uint64_t *make_bitmap(uint64_t words, uint64_t property, uint64_t *state)
{
	uint64_t *bitmap = workload_memory(words * sizeof(*bitmap));

	for (uint64_t i = 0; i < words; i++) {
		bitmap[i] = workload_random(state);
		for (uint64_t k = property % 3; k > 0; k--)
			bitmap[i] &= workload_random(state);
	}
	return bitmap;
}

/* Rows that have the first, or the second and the third, but not the fourth. */
static uint64_t ask(uint64_t *const *asked, uint64_t words)
{
	const uint64_t *a = asked[0], *b = asked[1], *c = asked[2], *d = asked[3];
	uint64_t rows = 0;

	for (uint64_t i = 0; i < words; i++)
		rows += ones((a[i] | (b[i] & c[i])) & ~d[i]);
	return rows;
}

int main(int argc, char **argv)
{
	uint64_t rows = 16 << 20, properties = 160, count = 3000, seed = 1, state, words, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "questions" },
		{ "properties", &properties, 1, "of rows" },
		{ "rows", &rows, 64, "of the table, in steps of 64" },
		{ "seed", &seed, 0, "of the rows" },
	};
	uint64_t **bitmaps;

	(void)argc;
	WORKLOAD_PARSE(argv, "Ask an index of bitmaps.", options);
	workload_at_most_32_bits(properties);
	words = rows / 64;
	state = workload_seed(seed);
	bitmaps = workload_memory(properties * sizeof(*bitmaps));
	for (uint64_t i = 0; i < properties; i++)
		bitmaps[i] = make_bitmap(words, i, &state);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t *asked[ASKED];

		for (unsigned k = 0; k < ASKED; k++)
			asked[k] = bitmaps[workload_below(workload_random(&state), properties)];
		sum = sum * 31 + ask(asked, words);
	}
	for (uint64_t i = 0; i < properties; i++)
		free(bitmaps[i]);
	free(bitmaps);
	return workload_finish(sum);
}
