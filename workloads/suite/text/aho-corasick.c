/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which of many words are where in a text?  The automaton of Aho and Corasick
 * goes from state to state with each letter: the text is read in order, while
 * the next state's row may be anywhere in the table, mostly near its root.
 */
#include "workload.h"

#define LETTERS 26u
#define LEAST_LETTERS 4u
#define MOST_LETTERS 24u

struct state {
	uint32_t next[LETTERS];
	uint32_t longest;	/* the state of the longest proper ending that is one */
	uint32_t found;		/* what the words that end here add up to */
};

struct automaton {
	struct state *states;	/* 0: the root */
	uint64_t n;
	unsigned char *words;	/* MOST_LETTERS each, without an end of their own */
	unsigned char *lengths;
};

static void add_word(struct automaton *automaton, uint64_t word, uint64_t *random)
{
	unsigned char *letters = automaton->words + word * MOST_LETTERS;
	uint64_t length = LEAST_LETTERS + workload_below(workload_random(random),
							 MOST_LETTERS - LEAST_LETTERS + 1);
	uint32_t at = 0;

	automaton->lengths[word] = (unsigned char)length;
	for (uint64_t i = 0; i < length; i++) {
		/* Some letters are more frequent. */
		uint64_t most = workload_below(workload_random(random), LETTERS);
		uint32_t *next;

		letters[i] = (unsigned char)workload_below(workload_random(random), most + 1);
		next = &automaton->states[at].next[letters[i]];
		if (!*next)
			*next = (uint32_t)automaton->n++;
		at = *next;
	}
	automaton->states[at].found += (uint32_t)word + 1;
}

/* Go through the states by their depths, so that shorter ones are complete. */
static void complete(struct automaton *automaton)
{
	struct state *states = automaton->states;
	uint32_t *queue = workload_memory(automaton->n * sizeof(*queue));
	uint64_t done = 0, waiting = 1;

	queue[0] = 0;
	while (done < waiting) {
		const uint32_t at = queue[done++];

		for (unsigned letter = 0; letter < LETTERS; letter++) {
			const uint32_t next = states[at].next[letter];
			const uint32_t other = at ? states[states[at].longest].next[letter] : 0;

			if (next) {
				states[next].longest = other;
				states[next].found += states[other].found;
				queue[waiting++] = next;
			} else {
				states[at].next[letter] = other;
			}
		}
	}
	free(queue);
}

/* Beginnings of words, and letters between them. */
static void make_text(const struct automaton *automaton, unsigned char *text, uint64_t size,
		      uint64_t words, uint64_t *random)
{
	uint64_t n = 0;

	while (n < size) {
		const uint64_t word = workload_below(workload_random(random), words);
		const uint64_t part = 1 + workload_below(workload_random(random),
							 automaton->lengths[word]);

		for (uint64_t i = 0; i < part && n < size; i++)
			text[n++] = automaton->words[word * MOST_LETTERS + i];
		if (n < size)
			text[n++] = (unsigned char)(part % LETTERS);
	}
}

int main(int argc, char **argv)
{
	uint64_t words = 8000, size = 48 << 20, rounds = 3, seed = 1, random, sum = 0;
	const struct workload_option options[] = {
		{ "rounds", &rounds, 1, "how often the text is read" },
		{ "seed", &seed, 0, "of the words and the text" },
		{ "size", &size, 1, "letters of the text" },
		{ "words", &words, 1, "to look for" },
	};
	struct automaton automaton = { .n = 1 };
	unsigned char *text;
	uint64_t bytes;

	(void)argc;
	WORKLOAD_PARSE(argv, "Look for many words in a text.", options);
	if (words > UINT32_MAX / MOST_LETTERS - 1) {
		fputs("--words is too large\n", stderr);
		return 2;
	}
	random = workload_seed(seed);
	bytes = (words * MOST_LETTERS + 1) * sizeof(*automaton.states);
	automaton.states = workload_memory(bytes);
	memset(automaton.states, 0, bytes);
	automaton.words = workload_memory(words * MOST_LETTERS);
	automaton.lengths = workload_memory(words);
	for (uint64_t i = 0; i < words; i++)
		add_word(&automaton, i, &random);
	complete(&automaton);
	text = workload_memory(size);
	make_text(&automaton, text, size, words, &random);
	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t at = 0;

		for (uint64_t i = 0; i < size; i++) {
			at = automaton.states[at].next[text[i]];
			sum += automaton.states[at].found;
		}
	}
	free(text);
	free(automaton.lengths);
	free(automaton.words);
	free(automaton.states);
	return workload_finish(sum);
}
