/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compress a text by naming where it has been before: chains of hashes lead
 * to earlier places, the longest match wins.  The text is read in order, and
 * with it places anywhere within a window behind.
 */
#include "workload.h"

#define LEAST_MATCH 4u
#define MOST_MATCH 258u
#define HASH_BITS 16u
#define VOCABULARY 20000u

struct matcher {
	const unsigned char *text;
	uint64_t bytes;
	uint64_t window;	/* a power of two */
	uint64_t depth;		/* places looked at */
	uint64_t *heads;	/* the latest place of each hash, plus 1 */
	uint64_t *earlier;	/* the one before, for each place of the window */
};

/* Words of few letters; some are frequent, most are rare. */
static void make_text(unsigned char *text, uint64_t bytes, uint64_t seed)
{
	uint64_t state = workload_seed(seed), i = 0;

	while (i < bytes) {
		uint64_t word = workload_below(workload_random(&state), VOCABULARY);

		word = workload_below(workload_random(&state), word + 1);
		word = workload_seed(workload_below(workload_random(&state), word + 1));
		for (uint64_t letters = 2 + word % 9; letters > 0 && i < bytes; letters--) {
			text[i++] = (unsigned char)('a' + workload_below(workload_random(&word), 26));
		}
		if (i < bytes)
			text[i++] = ' ';
	}
}

/* Remember the place; the one before with the same hash, plus 1, or 0. */
static uint64_t insert(struct matcher *m, uint64_t place)
{
	uint32_t start;
	uint64_t *head;

	memcpy(&start, m->text + place, sizeof(start));
	head = &m->heads[start * 2654435761u >> (32 - HASH_BITS)];
	m->earlier[place & (m->window - 1)] = *head;
	*head = place + 1;
	return m->earlier[place & (m->window - 1)];
}

static uint64_t match_length(const struct matcher *m, uint64_t a, uint64_t b)
{
	uint64_t most = m->bytes - b < MOST_MATCH ? m->bytes - b : MOST_MATCH;
	uint64_t length = 0;

	while (length < most && m->text[a + length] == m->text[b + length])
		length++;
	return length;
}

static uint64_t compress(struct matcher *m)
{
	uint64_t sum = 0, place = 0;

	while (place + LEAST_MATCH <= m->bytes) {
		uint64_t other = insert(m, place), best = 0, distance = 0;

		for (uint64_t i = 0; i < m->depth && other && place + 1 - other < m->window; i++) {
			uint64_t length = match_length(m, other - 1, place);

			if (length > best) {
				best = length;
				distance = place + 1 - other;
			}
			other = m->earlier[(other - 1) & (m->window - 1)];
		}
		if (best < LEAST_MATCH) {
			best = 1;
			distance = m->text[place];
		}
		sum = sum * 31 + (distance << 9 | best);
		for (place++; --best > 0 && place + LEAST_MATCH <= m->bytes; place++)
			insert(m, place);
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t size = 16u << 20, window = 1u << 20, depth = 16, seed = 1, sum;
	const struct workload_option options[] = {
		{ "depth", &depth, 1, "earlier places that are looked at" },
		{ "seed", &seed, 0, "of the text" },
		{ "size", &size, 1, "bytes of the text" },
		{ "window", &window, 2, "bytes that a match may lie behind, a power of two" },
	};
	struct matcher m = { 0 };
	unsigned char *text;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find repetitions in a text.", options);
	if (window & (window - 1)) {
		fputs("--window must be a power of two\n", stderr);
		return 2;
	}
	text = workload_memory(size);
	make_text(text, size, seed);
	m = (struct matcher){ .text = text, .bytes = size, .window = window, .depth = depth };
	m.heads = workload_memory((1u << HASH_BITS) * sizeof(*m.heads));
	memset(m.heads, 0, (1u << HASH_BITS) * sizeof(*m.heads));
	m.earlier = workload_memory(window * sizeof(*m.earlier));
	sum = compress(&m);
	free(text);
	free(m.heads);
	free(m.earlier);
	return workload_finish(sum);
}
