/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who wins at Connect Four?  A search of some moves ahead, which keeps what it
 * has found of each position in a table: a place anywhere in it for each
 * position, and much computing between two.
 */
#include "workload.h"

#define WON 64
#define KEY_SHIFT 10u

/* A column is a bit for each row, and one above them that is never set. */
struct game {
	unsigned columns;
	unsigned rows;
	uint64_t table_mask;
	uint64_t *table;	/* key, kind of bound, value + 2 * WON */
};

/* The stones of who moves next, and all. */
struct position {
	uint64_t mine;
	uint64_t all;
};

enum { EXACT, AT_LEAST, AT_MOST };

static uint64_t column_bits(const struct game *game, unsigned column)
{
	return ((UINT64_C(1) << game->rows) - 1) << column * (game->rows + 1);
}

/* The bit where a stone would fall; 0 if the column is full. */
static uint64_t drop(const struct game *game, const struct position *p, unsigned column)
{
	uint64_t bits = column_bits(game, column);

	return (p->all + (bits & -bits)) & bits & ~p->all;
}

static struct position after(const struct position *p, uint64_t stone)
{
	return (struct position){ p->mine ^ p->all, p->all | stone };
}

static int wins(const struct game *game, uint64_t stones)
{
	const unsigned steps[] = { 1, game->rows, game->rows + 1, game->rows + 2 };

	for (unsigned i = 0; i < 4; i++) {
		uint64_t pairs = stones & stones >> steps[i];

		if (pairs & pairs >> 2 * steps[i])
			return 1;
	}
	return 0;
}

/* Pairs and threes in a row, in all directions; less than what a win is worth. */
static int worth(const struct game *game, uint64_t stones)
{
	const unsigned steps[] = { 1, game->rows, game->rows + 1, game->rows + 2 };
	int sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t pairs = stones & stones >> steps[i];

		sum += __builtin_popcountll(pairs) + __builtin_popcountll(pairs & pairs >> steps[i]);
	}
	return sum < WON ? sum : WON - 1;
}

static uint64_t *place(const struct game *game, uint64_t key)
{
	return &game->table[(key * 0x9e3779b97f4a7c15u >> 24) & game->table_mask];
}

/* How good it is for who moves next; nobody has won yet. */
static int search(const struct game *game, const struct position *p, uint64_t moves, int low,
		  int high)
{
	uint64_t key = p->mine + p->all, *entry = place(game, key);
	int best = -2 * WON, first = low;
	unsigned bound;

	if (moves == 0)
		return worth(game, p->mine) - worth(game, p->mine ^ p->all);
	if (*entry >> KEY_SHIFT == key) {
		int value = (int)(*entry & 0xff) - 2 * WON;

		bound = *entry >> 8 & 3;
		if (bound == EXACT || (bound == AT_LEAST && value >= high) ||
		    (bound == AT_MOST && value <= low))
			return value;
	}
	/* From the middle to the sides. */
	for (unsigned i = 0; i < game->columns && best < high; i++) {
		unsigned from_middle = (i + 1) / 2, middle = (game->columns - 1) / 2;
		uint64_t stone = drop(game, p, i & 1 ? middle + from_middle : middle - from_middle);
		struct position next = after(p, stone);
		int value;

		if (!stone)
			continue;
		if (wins(game, p->mine | stone))
			value = WON + (int)moves;
		else
			value = -search(game, &next, moves - 1, -high, -low);
		best = value > best ? value : best;
		low = value > low ? value : low;
	}
	/* No stone fits: it is a draw. */
	if (best == -2 * WON)
		return 0;
	bound = best >= high ? AT_LEAST : best > first ? EXACT : AT_MOST;
	*entry = key << KEY_SHIFT | (uint64_t)bound << 8 | (uint64_t)(best + 2 * WON);
	return best;
}

/* Some random moves, none of which wins; fewer if there are not that many. */
static struct position begin(const struct game *game, uint64_t moves, uint64_t *state)
{
	struct position p = { 0, 0 };

	for (uint64_t tries = 0; moves > 0 && tries < 1000; tries++) {
		unsigned column = (unsigned)workload_below(workload_random(state), game->columns);
		uint64_t stone = drop(game, &p, column);

		if (stone && !wins(game, p.mine | stone)) {
			p = after(&p, stone);
			moves--;
		}
	}
	return p;
}

int main(int argc, char **argv)
{
	uint64_t columns = 7, rows = 6, begun = 8, moves = 14, entries = 32 << 20, count = 5;
	uint64_t seed = 1, sum = 0, state;
	const struct workload_option options[] = {
		{ "begun", &begun, 0, "random moves before each search" },
		{ "columns", &columns, 1, "of the board" },
		{ "count", &count, 0, "searches" },
		{ "entries", &entries, 1, "of the table, a power of two" },
		{ "moves", &moves, 1, "that it looks ahead" },
		{ "rows", &rows, 1, "of the board" },
		{ "seed", &seed, 0, "of the first moves" },
	};
	struct game game;

	(void)argc;
	WORKLOAD_PARSE(argv, "Play Connect Four.", options);
	if (columns > 9 || rows > 9 || columns * (rows + 1) > 64 - KEY_SHIFT || begun > 20 || moves > 40) {
		fputs("the board is too large, or --begun or --moves\n", stderr);
		return 2;
	}
	if (entries & (entries - 1)) {
		fputs("--entries must be a power of two\n", stderr);
		return 2;
	}
	game = (struct game){
		.columns = (unsigned)columns,
		.rows = (unsigned)rows,
		.table_mask = entries - 1,
		.table = workload_memory(entries * sizeof(*game.table)),
	};
	/* No key: the last bit of a column is never set. */
	memset(game.table, 0xff, entries * sizeof(*game.table));
	state = workload_seed(seed);
	for (; count > 0; count--) {
		struct position p = begin(&game, begun, &state);
		uint64_t stones = (uint64_t)__builtin_popcountll(p.all);

		/* To the same number of stones each time, so that all can share the table. */
		sum = sum * 31 + 2 * WON +
		      (uint64_t)search(&game, &p, begun + moves - stones, -2 * WON, 2 * WON);
	}
	free(game.table);
	return workload_finish(sum);
}
