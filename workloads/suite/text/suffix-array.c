/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In which order are all ends of a text?  Manber and Myers' doubling: ends
 * that are sorted by their first k letters are sorted by 2k, with a look at
 * the rank of the place k letters on, anywhere in the text.
 */
#include "workload.h"

#define LETTERS 256u

struct suffixes {
	uint32_t n;
	uint32_t *order;	/* places, sorted */
	uint32_t *rank;		/* of each place */
	uint32_t *other;
	uint32_t *count;	/* of each rank */
};

/* A text whose parts come again. */
static void make_text(unsigned char *text, uint32_t n, uint64_t seed)
{
	uint64_t state = workload_seed(seed);
	uint32_t i = 0;

	while (i < n) {
		uint64_t length = 1 + workload_below(workload_random(&state), 60);
		uint64_t from = workload_below(workload_random(&state), (uint64_t)i);
		int again = i > 1000 && (workload_random(&state) & 1);

		for (uint64_t k = 0; k < length && i < n; k++, i++)
			text[i] = again ? text[from + k] :
					  (unsigned char)('a' + workload_below(
						workload_random(&state), 20));
	}
}

/* Sort the places in `other` by their rank into `order`; equal ones keep their order. */
static void sort(struct suffixes *s, uint32_t ranks)
{
	memset(s->count, 0, ((uint64_t)ranks + 1) * sizeof(*s->count));
	for (uint32_t i = 0; i < s->n; i++)
		s->count[s->rank[i] + 1]++;
	for (uint32_t i = 1; i <= ranks; i++)
		s->count[i] += s->count[i - 1];
	for (uint32_t i = 0; i < s->n; i++)
		s->order[s->count[s->rank[s->other[i]]]++] = s->other[i];
}

/* The rank of the place k letters on, plus 1; 0 beyond the text. */
static uint32_t rank_on(const struct suffixes *s, uint32_t place, uint32_t k)
{
	return s->n - place > k ? s->rank[place + k] + 1 : 0;
}

/* Rank by what `order` is sorted by: the first k letters, then the k after them. */
static uint32_t rank_again(struct suffixes *s, uint32_t k)
{
	uint32_t *rank = s->other;
	uint32_t ranks = 0;

	rank[s->order[0]] = 0;
	for (uint32_t i = 1; i < s->n; i++) {
		uint32_t a = s->order[i - 1], b = s->order[i];

		if (s->rank[a] != s->rank[b] || rank_on(s, a, k) != rank_on(s, b, k))
			ranks++;
		rank[b] = ranks;
	}
	s->other = s->rank;
	s->rank = rank;
	return ranks + 1;
}

static void build(struct suffixes *s, const unsigned char *text)
{
	uint32_t ranks;

	for (uint32_t i = 0; i < s->n; i++) {
		s->rank[i] = text[i];
		s->other[i] = i;
	}
	sort(s, LETTERS);
	ranks = rank_again(s, s->n);
	for (uint32_t k = 1; ranks < s->n; k *= 2) {
		uint32_t next = 0;

		/* By the second half: those without one, then in the order there is. */
		for (uint32_t i = s->n > k ? s->n - k : 0; i < s->n; i++)
			s->other[next++] = i;
		for (uint32_t i = 0; i < s->n; i++)
			if (s->order[i] >= k)
				s->other[next++] = s->order[i] - k;
		sort(s, ranks);
		ranks = rank_again(s, k);
	}
}

int main(int argc, char **argv)
{
	uint64_t n = 4000000, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "seed", &seed, 0, "of the text" },
		{ "size", &n, 1, "bytes of the text" },
	};
	unsigned char *text;
	struct suffixes s;

	(void)argc;
	WORKLOAD_PARSE(argv, "Sort the suffixes of a text.", options);
	if (n > INT32_MAX) {
		fputs("--size is too large\n", stderr);
		return 2;
	}
	text = workload_memory(n);
	s.n = (uint32_t)n;
	s.order = workload_memory(n * sizeof(*s.order));
	s.rank = workload_memory(n * sizeof(*s.rank));
	s.other = workload_memory(n * sizeof(*s.other));
	s.count = workload_memory(((n > LETTERS ? n : LETTERS) + 1) * sizeof(*s.count));
	make_text(text, s.n, seed);
	build(&s, text);
	/* Burrows and Wheeler's transform: the letter before each. */
	for (uint32_t i = 0; i < s.n; i++)
		sum = sum * 31 + (s.order[i] ? text[s.order[i] - 1] : 0);
	free(s.count);
	free(s.other);
	free(s.rank);
	free(s.order);
	free(text);
	return workload_finish(sum);
}
