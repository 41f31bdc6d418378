/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of each read of DNA is in a known text?  An automaton of all
 * substrings of the text, built letter by letter, follows the reads: at each of
 * their letters it knows the longest end of what was read that is in the text.
 */
#include "workload.h"

#define LETTERS 4u
#define NONE UINT32_MAX
#define LONGEST_PIECE 300u
#define READ_LETTERS 150u

struct state {
	uint32_t next[LETTERS];
	uint32_t link;		/* of the longest end of it that occurs elsewhere, too */
	uint32_t length;	/* of the longest substring that leads here */
};

struct automaton {
	struct state *states;	/* the first is the empty substring */
	uint32_t n;
	uint32_t last;		/* the whole text up to now */
};

static uint32_t new_state(struct automaton *automaton, uint32_t length)
{
	struct state *state = &automaton->states[automaton->n];

	for (unsigned i = 0; i < LETTERS; i++)
		state->next[i] = NONE;
	state->link = NONE;
	state->length = length;
	return automaton->n++;
}

/* A state of its own for the shorter substrings that lead to what "at" goes to. */
static uint32_t divide(struct automaton *automaton, uint32_t at, unsigned letter)
{
	struct state *states = automaton->states;
	uint32_t old = states[at].next[letter];
	uint32_t new = new_state(automaton, states[at].length + 1);

	memcpy(states[new].next, states[old].next, sizeof(states[new].next));
	states[new].link = states[old].link;
	states[old].link = new;
	for (; at != NONE && states[at].next[letter] == old; at = states[at].link)
		states[at].next[letter] = new;
	return new;
}

static void extend(struct automaton *automaton, unsigned letter)
{
	struct state *states = automaton->states;
	uint32_t at = automaton->last, to;
	uint32_t new = new_state(automaton, states[at].length + 1);

	for (; at != NONE && states[at].next[letter] == NONE; at = states[at].link)
		states[at].next[letter] = new;
	automaton->last = new;
	if (at == NONE) {
		states[new].link = 0;
		return;
	}
	to = states[at].next[letter];
	if (states[to].length != states[at].length + 1)
		to = divide(automaton, at, letter);
	states[new].link = to;
}

static uint64_t different_substrings(const struct automaton *automaton)
{
	uint64_t sum = 0;

	for (uint32_t i = 1; i < automaton->n; i++)
		sum += automaton->states[i].length -
		       automaton->states[automaton->states[i].link].length;
	return sum;
}

/* Pieces are new, or repeat what came before. */
static void make_text(unsigned char *text, uint64_t size, uint64_t *state)
{
	for (uint64_t i = 0; i < size;) {
		uint64_t end = i + 1 + workload_below(workload_random(state), LONGEST_PIECE);
		uint64_t random = workload_random(state);
		uint64_t from = workload_below(random, i + 1);

		for (; i < end && i < size; i++, from++) {
			if ((random & 1) && from < i)
				text[i] = text[from];
			else
				text[i] = workload_random(state) >> 32 & (LETTERS - 1);
		}
	}
}

/* Letters of the text from a random place on, of which some have been misread. */
static uint64_t follow_read(const struct automaton *automaton, const unsigned char *text,
			    uint64_t size, uint64_t *random_state)
{
	const struct state *states = automaton->states;
	uint64_t place = workload_below(workload_random(random_state), size), sum = 0;
	uint32_t at = 0, length = 0;

	for (unsigned i = 0; i < READ_LETTERS; i++) {
		uint64_t random = workload_random(random_state);
		unsigned letter = text[(place + i) % size];

		if (!(random >> 32 & 15))
			letter = random >> 40 & (LETTERS - 1);
		while (at && states[at].next[letter] == NONE) {
			at = states[at].link;
			length = states[at].length;
		}
		if (states[at].next[letter] != NONE) {
			at = states[at].next[letter];
			length++;
		}
		sum = sum * 31 + length;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t size = 6 << 20, count = 20000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "reads" },
		{ "seed", &seed, 0, "of the text" },
		{ "size", &size, 1, "of the text in letters" },
	};
	struct automaton automaton = { 0 };
	unsigned char *text;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find reads of DNA in a text, by an automaton of substrings.",
		       options);
	if (size > INT32_MAX / 2) {
		fputs("--size must be below 1G\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	text = workload_memory(size);
	make_text(text, size, &state);
	automaton.states = workload_memory((2 * size + 1) * sizeof(*automaton.states));
	automaton.last = new_state(&automaton, 0);
	for (uint64_t i = 0; i < size; i++)
		extend(&automaton, text[i]);
	for (uint64_t i = 0; i < count; i++)
		sum = sum * 31 + follow_read(&automaton, text, size, &state);
	sum = sum * 31 + different_substrings(&automaton);
	free(automaton.states);
	free(text);
	return workload_finish(sum);
}
