/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How do steps with known overlap perform?  Steps go to one line in each of --pages pages, so
 * every step of a large footprint misses the TLB.  --chains pointers follow one random ring at
 * different places: each waits only for itself, so as many walks may be in flight.  --compute
 * multiplications lie between a pointer and the next one's address.  With --update 1 the lines
 * are updated at random places that depend on nothing; with 2 each place depends on the value
 * updated last.
 */
#include "workload.h"

#define MOST_CHAINS 16
#define LINES_IN_PAGE (WORKLOAD_PAGE_BYTES / WORKLOAD_LINE_BYTES)

struct line {
	union {
		struct line *next;
		uint64_t value;
	};
	char rest[WORKLOAD_LINE_BYTES - sizeof(uint64_t)];
};

/* A different line in each page; otherwise all would be in the same sets of the caches. */
static inline struct line *line_in(struct line *lines, uint64_t page)
{
	return &lines[page * LINES_IN_PAGE + page % LINES_IN_PAGE];
}

/* Sattolo's shuffle: one ring through all pages, each ring equally likely. */
static void make_ring(struct line *lines, uint64_t pages, uint64_t *state)
{
	for (uint64_t i = 0; i < pages; i++)
		line_in(lines, i)->next = line_in(lines, i);
	for (uint64_t i = pages - 1; i > 0; i--) {
		struct line *a = line_in(lines, i);
		struct line *b = line_in(lines, workload_below(workload_random(state), i));
		struct line *next = a->next;

		a->next = b->next;
		b->next = next;
	}
}

/* The chains' first lines, as far from each other as the ring lets them. */
static void place(struct line *lines, uint64_t pages, struct line **at,
		  unsigned chains)
{
	struct line *line = line_in(lines, 0);
	uint64_t steps = 0;

	for (unsigned c = 0; c < chains; c++) {
		for (; steps < c * pages / chains; steps++)
			line = line->next;
		at[c] = line;
	}
}

/*
 * A step of each chain in each round.  Inlined with a constant number of chains, and unrolled:
 * the pointers should be in registers, if there are enough.
 */
static inline __attribute__((always_inline)) void
follow(struct line **at, unsigned chains, uint64_t rounds, uint64_t compute)
{
	/* What the compiler must not know: that the products change nothing. */
	volatile uint64_t nothing = 0, odd = 3;
	const uint64_t mask = nothing, factor = odd;
	struct line *now[MOST_CHAINS];

	for (unsigned c = 0; c < chains; c++)
		now[c] = at[c];
	if (!compute) {
		for (uint64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 16
			for (unsigned c = 0; c < chains; c++)
				now[c] = now[c]->next;
		}
	} else {
		for (uint64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 16
			for (unsigned c = 0; c < chains; c++) {
				uint64_t next = now[c]->value, product = next;

				for (uint64_t n = 0; n < compute; n++)
					product *= factor;
				next ^= product & mask;
				now[c] = (struct line *)(uintptr_t)next;
			}
		}
	}
	for (unsigned c = 0; c < chains; c++)
		at[c] = now[c];
}

static uint64_t chase(struct line *lines, uint64_t pages, unsigned chains,
		      uint64_t count, uint64_t compute)
{
	const uint64_t rounds = count / chains;
	struct line *at[MOST_CHAINS];
	uint64_t sum = 0;

	place(lines, pages, at, chains);
	switch (chains) {
	case 1:
		follow(at, 1, rounds, compute);
		break;
	case 2:
		follow(at, 2, rounds, compute);
		break;
	case 4:
		follow(at, 4, rounds, compute);
		break;
	case 8:
		follow(at, 8, rounds, compute);
		break;
	default:
		follow(at, 16, rounds, compute);
	}
	for (unsigned c = 0; c < chains; c++)
		sum = sum * pages + (uint64_t)(at[c] - lines) / LINES_IN_PAGE;
	return sum;
}

/* Update one line for each count; the sum of what was there before. */
static inline __attribute__((always_inline)) uint64_t
update(struct line *lines, uint64_t pages, uint64_t count, uint64_t state,
       int dependent)
{
	uint64_t last = 0, sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t random = workload_random(&state);
		const uint64_t where = dependent ? random ^ last : random;
		struct line *line = line_in(lines, workload_below(where, pages));

		sum += line->value;
		last = line->value ^= random;
	}
	return sum;
}

static int refuse(const char *why)
{
	fprintf(stderr, "%s\n", why);
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t pages = 65536, chains = 1, compute = 0, updates = 0;
	uint64_t count = 10000000, seed = 1, state;
	const struct workload_option options[] = {
		{ "chains", &chains, 1, "pointers side by side: 1, 2, 4, 8 or 16" },
		{ "compute", &compute, 0, "multiplications from load to load" },
		{ "count", &count, 0, "steps, of all chains together" },
		{ "pages", &pages, 1, "pages of 4 KiB with a line each" },
		{ "seed", &seed, 0, "of the random places" },
		{ "update", &updates, 0, "0: chase; 1: update; 2: each needs the last" },
	};
	struct line *lines;

	(void)argc;
	WORKLOAD_PARSE(argv, "Steps with known dependences.", options);
	if (pages > UINT64_C(1) << 32)
		return refuse("--pages is too large for 32-bit indices");
	if (chains > MOST_CHAINS || (chains & (chains - 1)))
		return refuse("--chains must be 1, 2, 4, 8 or 16");
	if (updates > 2)
		return refuse("--update must be 0, 1 or 2");
	if (updates && (chains > 1 || compute))
		return refuse("--update goes with neither --chains nor --compute");
	lines = workload_aligned_memory(pages * WORKLOAD_PAGE_BYTES);
	state = workload_seed(seed);
	if (!updates) {
		make_ring(lines, pages, &state);
		return workload_finish(chase(lines, pages, (unsigned)chains,
					     count, compute));
	}
	for (uint64_t i = 0; i < pages; i++)
		line_in(lines, i)->value = workload_random(&state);
	if (updates == 1)
		return workload_finish(update(lines, pages, count, state, 0));
	return workload_finish(update(lines, pages, count, state, 1));
}
