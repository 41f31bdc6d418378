/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code a text with fewer bits for letters that are more frequent (Huffman's),
 * and decode it again: the text and its code from begin to end, with tables that
 * are small.
 */
#include "workload.h"

#define LETTERS 64u
#define NODES (2 * LETTERS)

struct node {
	uint64_t weight;
	unsigned next[2];	/* 0: it is a letter */
};

struct code {
	struct node nodes[NODES];	/* letters come first */
	unsigned root;
	uint64_t bits[LETTERS];		/* the first one is the lowest */
	unsigned length[LETTERS];
};

static unsigned take_lightest(const struct code *code, unsigned *waiting, unsigned *n)
{
	unsigned best = 0, result;

	for (unsigned i = 1; i < *n; i++)
		if (code->nodes[waiting[i]].weight < code->nodes[waiting[best]].weight)
			best = i;
	result = waiting[best];
	waiting[best] = waiting[--*n];
	return result;
}

static void give_bits(struct code *code, unsigned node, uint64_t bits, unsigned length)
{
	if (node < LETTERS) {
		code->bits[node] = bits;
		code->length[node] = length;
		return;
	}
	give_bits(code, code->nodes[node].next[0], bits, length + 1);
	give_bits(code, code->nodes[node].next[1], bits | UINT64_C(1) << length, length + 1);
}

/* Every letter gets a code, even if the text has none of it. */
static void make_code(struct code *code, const unsigned char *text, uint64_t size)
{
	unsigned waiting[NODES], n = LETTERS, nodes = LETTERS;

	memset(code, 0, sizeof(*code));
	for (uint64_t i = 0; i < size; i++)
		code->nodes[text[i]].weight++;
	for (unsigned i = 0; i < LETTERS; i++)
		waiting[i] = i;
	while (n > 1) {
		struct node *node = &code->nodes[nodes];

		node->next[0] = take_lightest(code, waiting, &n);
		node->next[1] = take_lightest(code, waiting, &n);
		node->weight = code->nodes[node->next[0]].weight +
			       code->nodes[node->next[1]].weight;
		waiting[n++] = nodes++;
	}
	code->root = waiting[0];
	give_bits(code, code->root, 0, 0);
}

static uint64_t bits_of_text(const struct code *code)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < LETTERS; i++)
		bits += code->nodes[i].weight * code->length[i];
	return bits;
}

/* Codes of 64 letters are shorter than 64 bits. */
static void encode(const struct code *code, const unsigned char *text, uint64_t size,
		   uint64_t *words)
{
	uint64_t word = 0;
	unsigned filled = 0;

	for (uint64_t i = 0; i < size; i++) {
		uint64_t bits = code->bits[text[i]];
		unsigned length = code->length[text[i]];

		word |= bits << filled;
		if (filled + length >= 64) {
			*words++ = word;
			word = filled ? bits >> (64 - filled) : 0;
			filled = filled + length - 64;
		} else {
			filled += length;
		}
	}
	*words = word;
}

/* The letters, each times 31 for every one that comes after it. */
static uint64_t decode(const struct code *code, const uint64_t *words, uint64_t size)
{
	uint64_t sum = 0, at = 0;

	for (uint64_t i = 0; i < size; i++) {
		unsigned node = code->root;

		for (; node >= LETTERS; at++)
			node = code->nodes[node].next[words[at / 64] >> at % 64 & 1];
		sum = sum * 31 + node;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t size = 96 << 20, seed = 1, state, bits, sum;
	const struct workload_option options[] = {
		{ "seed", &seed, 0, "of the text" },
		{ "size", &size, 1, "of the text in bytes" },
	};
	unsigned char *text;
	uint64_t *words;
	struct code code;

	(void)argc;
	WORKLOAD_PARSE(argv, "Code a text and decode it.", options);
	state = workload_seed(seed);
	text = workload_memory(size);
	for (uint64_t i = 0; i < size; i++) {
		uint64_t random = workload_random(&state);
		uint64_t most = 1 + workload_below(random, LETTERS);

		/* The lower half picks again, so that the first letters are frequent. */
		most = 1 + workload_below(random << 32, most);
		text[i] = (unsigned char)workload_below(random << 16, most);
	}
	make_code(&code, text, size);
	bits = bits_of_text(&code);
	words = workload_memory((bits / 64 + 1) * sizeof(*words));
	encode(&code, text, size, words);
	free(text);
	sum = decode(&code, words, size);
	free(words);
	return workload_finish(sum * 31 + bits);
}
