/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Edit a long text: move blocks of lines, replace lines, and read some.  Lines
 * are nodes of a tree by their place (a treap), each with a text of its own on
 * the heap; to cut it in two and to put two together goes from node to node.
 */
#include "workload.h"

#define LONGEST 80u
#define READ_LINES 3u

struct line {
	struct line *left, *right;
	char *text;
	uint32_t lines;		/* of this tree */
	uint32_t priority;	/* no child's is higher */
};

static char *new_text(uint64_t *state)
{
	uint64_t length = 1 + workload_below(workload_random(state), LONGEST);
	uint64_t letter = workload_below(workload_random(state), 26);
	char *text = workload_memory(length + 1);

	for (uint64_t i = 0; i < length; i++)
		text[i] = (char)('a' + (letter + i * i) % 26);
	text[length] = '\0';
	return text;
}

static uint32_t lines_of(const struct line *tree)
{
	return tree ? tree->lines : 0;
}

static void count_lines(struct line *tree)
{
	tree->lines = 1 + lines_of(tree->left) + lines_of(tree->right);
}

/* The first lines of a tree, and the rest. */
static void cut(struct line *tree, uint32_t first, struct line **before, struct line **after)
{
	if (!tree) {
		*before = *after = NULL;
	} else if (lines_of(tree->left) >= first) {
		cut(tree->left, first, before, &tree->left);
		count_lines(tree);
		*after = tree;
	} else {
		cut(tree->right, first - lines_of(tree->left) - 1, &tree->right, after);
		count_lines(tree);
		*before = tree;
	}
}

static struct line *join(struct line *before, struct line *after)
{
	if (!before || !after)
		return before ? before : after;
	if (before->priority >= after->priority) {
		before->right = join(before->right, after);
		count_lines(before);
		return before;
	}
	after->left = join(before, after->left);
	count_lines(after);
	return after;
}

static struct line *line_at(struct line *tree, uint32_t place)
{
	for (;;) {
		uint32_t before = lines_of(tree->left);

		if (place == before)
			return tree;
		if (place < before) {
			tree = tree->left;
		} else {
			tree = tree->right;
			place -= before + 1;
		}
	}
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0;

	while (*text)
		hash = hash * 31 + (uint64_t)*text++;
	return hash;
}

static struct line *move_block(struct line *tree, uint32_t longest, uint64_t *state)
{
	uint32_t lines = lines_of(tree);
	uint32_t from = (uint32_t)workload_below(workload_random(state), lines);
	uint32_t length = 1 + (uint32_t)workload_below(workload_random(state), longest);
	struct line *before, *block, *after;

	if (length > lines - from)
		length = lines - from;
	cut(tree, from, &before, &after);
	cut(after, length, &block, &after);
	tree = join(before, after);
	cut(tree, (uint32_t)workload_below(workload_random(state), lines - length + 1), &before,
	    &after);
	return join(join(before, block), after);
}

static void free_lines(struct line *tree)
{
	if (!tree)
		return;
	free_lines(tree->left);
	free_lines(tree->right);
	free(tree->text);
	free(tree);
}

int main(int argc, char **argv)
{
	uint64_t lines = 400000, count = 150000, longest = 1000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "blocks moved" },
		{ "lines", &lines, 1, "of the text" },
		{ "longest", &longest, 1, "block of lines" },
		{ "seed", &seed, 0, "of the text" },
	};
	struct line *tree = NULL;

	(void)argc;
	WORKLOAD_PARSE(argv, "Edit a long text.", options);
	if (lines >= UINT32_MAX || longest >= UINT32_MAX) {
		fputs("--lines and --longest must be below 4G\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	for (uint64_t i = 0; i < lines; i++) {
		struct line *line = workload_memory(sizeof(*line));
		uint32_t priority = (uint32_t)(workload_random(&state) >> 32);

		*line = (struct line){ NULL, NULL, new_text(&state), 1, priority };
		tree = join(tree, line);
	}
	for (uint64_t i = 0; i < count; i++) {
		struct line *line;
		uint32_t place;

		tree = move_block(tree, (uint32_t)longest, &state);
		line = line_at(tree, (uint32_t)workload_below(workload_random(&state), lines));
		free(line->text);
		line->text = new_text(&state);
		place = (uint32_t)workload_below(workload_random(&state), lines);
		for (uint32_t k = 0; k < READ_LINES && place + k < lines; k++)
			sum = sum * 31 + hash_of(line_at(tree, place + k)->text);
	}
	free_lines(tree);
	return workload_finish(sum);
}
