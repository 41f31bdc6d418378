/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which place has a player?  A tree of sums in an array (Fenwick's) counts how
 * many players have how many points: each change and each question goes through
 * some dozens of its elements, at distances of powers of two.
 */
#include "workload.h"

struct ranking {
	uint32_t *counts;	/* from 1: of points up to this, as many as the lowest bit says */
	uint64_t points;
};

static void change(struct ranking *ranking, uint64_t points, uint32_t by)
{
	for (uint64_t i = points; i <= ranking->points; i += i & -i)
		ranking->counts[i] += by;
}

/* How many have this many points, or fewer. */
static uint64_t up_to(const struct ranking *ranking, uint64_t points)
{
	uint32_t sum = 0;

	for (uint64_t i = points; i; i &= i - 1)
		sum += ranking->counts[i];
	return sum;
}

/* The least points that place players have up to, where the best has the last place. */
static uint64_t points_of(const struct ranking *ranking, uint64_t place)
{
	uint64_t at = 0, step = 1;

	while (step <= ranking->points / 2)
		step *= 2;
	for (; step; step /= 2) {
		if (at + step <= ranking->points && ranking->counts[at + step] < place) {
			at += step;
			place -= ranking->counts[at];
		}
	}
	return at + 1;
}

int main(int argc, char **argv)
{
	uint64_t players = 16000000, points = 60000000, count = 1000000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "games" },
		{ "players", &players, 1, "of whom each game changes one" },
		{ "points", &points, 1, "that one may have" },
		{ "seed", &seed, 0, "of the games" },
	};
	struct ranking ranking;
	uint32_t *current;

	(void)argc;
	WORKLOAD_PARSE(argv, "Keep a ranking of players.", options);
	if (players >= UINT32_MAX || points >= UINT32_MAX) {
		fputs("--players and --points must be below 4G\n", stderr);
		return 2;
	}
	ranking.points = points;
	ranking.counts = workload_memory((points + 1) * sizeof(*ranking.counts));
	current = workload_memory(players * sizeof(*current));
	memset(ranking.counts, 0, (points + 1) * sizeof(*ranking.counts));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < players; i++) {
		current[i] = 1 + (uint32_t)workload_below(workload_random(&state), points);
		ranking.counts[current[i]]++;
	}
	for (uint64_t i = 1; i <= points; i++)
		if (i + (i & -i) <= points)
			ranking.counts[i + (i & -i)] += ranking.counts[i];
	for (uint64_t i = 0; i < count; i++) {
		uint64_t player = workload_below(workload_random(&state), players);
		uint64_t place = 1 + workload_below(workload_random(&state), players);

		change(&ranking, current[player], UINT32_MAX);
		current[player] = 1 + (uint32_t)workload_below(workload_random(&state), points);
		change(&ranking, current[player], 1);
		sum = sum * 31 + up_to(&ranking, current[player]);
		sum = sum * 31 + points_of(&ranking, place);
	}
	free(current);
	free(ranking.counts);
	return workload_finish(sum);
}
