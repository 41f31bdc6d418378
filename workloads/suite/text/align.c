/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which parts of two genes are most alike?  Smith and Waterman's alignment:
 * the scores of a row stay in the caches, the way to each is written once, in
 * order, and in the end followed back through the rows.
 */
#include "workload.h"

#define MATCH 2
#define MISMATCH (-1)
#define GAP (-2)

enum { STOP, DIAGONAL, UP, LEFT };

struct best {
	int32_t score;
	uint64_t row;
	uint64_t column;
};

/* The second is the first, but for three of 32 letters: replaced, doubled, or left out. */
static void make_genes(unsigned char *a, unsigned char *b, uint64_t n, uint64_t seed)
{
	static const char letters[] = "acgt";
	uint64_t state = workload_seed(seed), k = 0;

	for (uint64_t i = 0; i < n; i++)
		a[i] = (unsigned char)letters[workload_random(&state) >> 62];
	for (uint64_t i = 0; i < n; i++) {
		uint64_t random = workload_random(&state);
		uint64_t change = random >> 32 & 31;

		b[i] = change == 0 ? (unsigned char)letters[random >> 62] : a[k];
		if (change != 1)
			k += change == 2 ? 2 : 1;
		k %= n;
	}
}

static struct best fill(const unsigned char *a, const unsigned char *b, uint64_t n,
			int32_t *scores, unsigned char *ways)
{
	struct best best = { 0, 0, 0 };

	memset(scores, 0, (n + 1) * sizeof(*scores));
	for (uint64_t row = 0; row < n; row++) {
		unsigned char *way = ways + row * n;
		int32_t diagonal = 0, left = 0;

		for (uint64_t column = 0; column < n; column++) {
			int32_t through = diagonal + (a[row] == b[column] ? MATCH : MISMATCH);
			int32_t up = scores[column + 1], down = up + GAP, on = left + GAP;
			int32_t score = through > 0 ? through : 0;
			unsigned char from = through > 0 ? DIAGONAL : STOP;

			/* No branches: which is the largest is unpredictable. */
			from = down > score ? UP : from;
			score = down > score ? down : score;
			from = on > score ? LEFT : from;
			score = on > score ? on : score;
			diagonal = up;
			scores[column + 1] = left = score;
			way[column] = from;
			if (score > best.score)
				best = (struct best){ score, row, column };
		}
	}
	return best;
}

/* Follow the best alignment back to where it begins. */
static uint64_t follow(const unsigned char *ways, uint64_t n, const struct best *best)
{
	uint64_t row = best->row, column = best->column, sum = 0;

	while (ways[row * n + column] != STOP) {
		unsigned char way = ways[row * n + column];

		sum = sum * 31 + way;
		if ((way != LEFT && row-- == 0) || (way != UP && column-- == 0))
			break;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t n = 24000, seed = 1, sum;
	const struct workload_option options[] = {
		{ "length", &n, 1, "letters of each gene" },
		{ "seed", &seed, 0, "of the genes" },
	};
	unsigned char *a, *b, *ways;
	int32_t *scores;
	struct best best;

	(void)argc;
	WORKLOAD_PARSE(argv, "Align two genes.", options);
	if (n > UINT32_MAX / 2) {
		fputs("--length is too large\n", stderr);
		return 2;
	}
	a = workload_memory(n);
	b = workload_memory(n);
	ways = workload_memory(n * n);
	scores = workload_memory((n + 1) * sizeof(*scores));
	make_genes(a, b, n, seed);
	best = fill(a, b, n, scores, ways);
	sum = follow(ways, n, &best) * 31 + (uint64_t)best.score;
	free(scores);
	free(ways);
	free(b);
	free(a);
	return workload_finish(sum);
}
