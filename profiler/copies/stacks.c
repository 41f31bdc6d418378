/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a search is about: a node, or a row. */
struct sought {
	uint64_t address;
	uint32_t first, second;
};

static size_t hash_of(const struct sought *sought)
{
	uint64_t hash = sought->address * UINT64_C(0x9e3779b97f4a7c15);

	hash ^= ((uint64_t)sought->first << 32 | sought->second) * UINT64_C(0xc2b2ae3d27d4eb4f);
	return (size_t)(hash ^ hash >> 29);
}

static struct sought of_node(const struct stacks *stacks, size_t number)
{
	const struct stack_node *node = &stacks->nodes[number];

	return (struct sought){ node->address, node->below, node->process };
}

static struct sought of_row(const struct stacks *stacks, size_t number)
{
	const struct stack_row *row = &stacks->rows[number];

	return (struct sought){ row->address, row->window, row->stack };
}

typedef struct sought (*key_of)(const struct stacks *stacks, size_t number);

/* The slot that has it, or is free for it. */
static uint32_t *slot_of(const struct stacks *stacks, const struct stack_index *index, key_of key,
			 const struct sought *sought)
{
	for (size_t i = hash_of(sought);; i++) {
		uint32_t *slot = &index->slots[i & (index->capacity - 1)];
		struct sought found;

		if (!*slot)
			return slot;
		found = key(stacks, *slot - 1u);
		if (found.address == sought->address && found.first == sought->first &&
		    found.second == sought->second)
			return slot;
	}
}

/* Make room for one more than `count`: the index is at most half full. */
static int grow_index(struct stacks *stacks, struct stack_index *index, key_of key, size_t count)
{
	struct stack_index larger = { NULL, index->capacity ? 2 * index->capacity : 1024 };

	if (2 * (count + 1) <= index->capacity)
		return 0;
	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return -1;
	for (size_t i = 0; i < index->capacity; i++)
		if (index->slots[i]) {
			const struct sought sought = key(stacks, index->slots[i] - 1u);

			*slot_of(stacks, &larger, key, &sought) = index->slots[i];
		}
	free(index->slots);
	*index = larger;
	return 0;
}

static void *grow(void *all, size_t count, size_t *capacity, size_t size)
{
	const size_t larger = *capacity ? 2 * *capacity : 256;
	void *grown;

	if (count < *capacity)
		return all;
	grown = count < UINT32_MAX / 2 ? realloc(all, larger * size) : NULL;
	if (grown)
		*capacity = larger;
	return grown;
}

/* The stack with one more return address; NO_STACK with errno if memory ran out. */
static uint32_t node_above(struct stacks *stacks, uint32_t below, uint64_t address)
{
	const struct sought sought = { address, below, stacks->process };
	const size_t first = stacks->node_count ? 0 : 1;	/* NO_STACK comes first */
	struct stack_node *nodes;
	uint32_t *slot;

	nodes = grow(stacks->nodes, stacks->node_count + first, &stacks->node_capacity,
		     sizeof(*nodes));
	if (!nodes)
		return NO_STACK;
	stacks->nodes = nodes;
	if (first)
		nodes[stacks->node_count++] = (struct stack_node){ 0, 0, 0, 0 };
	if (grow_index(stacks, &stacks->node_index, of_node, stacks->node_count) < 0)
		return NO_STACK;
	slot = slot_of(stacks, &stacks->node_index, of_node, &sought);
	if (!*slot) {
		nodes[stacks->node_count++] =
			(struct stack_node){ address, below, stacks->process, 0 };
		*slot = (uint32_t)stacks->node_count;
	}
	return *slot - 1u;
}

/* The stack as it is now; those below a known one are known.  -1: memory ran out. */
static int64_t current_stack(struct stacks *stacks)
{
	unsigned known = stacks->depth;
	uint32_t node;

	while (known && !stacks->frames[known - 1].node)
		known--;
	node = known ? stacks->frames[known - 1].node : NO_STACK;
	for (; known < stacks->depth; known++) {
		node = node_above(stacks, node, stacks->frames[known].address);
		if (node == NO_STACK)
			return -1;
		stacks->frames[known].node = node;
	}
	return node;
}

static void push(struct stacks *stacks, uint64_t address)
{
	if (stacks->depth == STACKS_DEPTH) {
		stacks->hidden++;
		return;
	}
	stacks->frames[stacks->depth].address = address;
	stacks->frames[stacks->depth++].node = 0;
}

/*
 * It returned to `next`: from the innermost call, or, by an exception or a call that the translator
 * made itself, from several.  If none returns there, the program does its own: nothing is known.
 */
static void pop(struct stacks *stacks, uint64_t next)
{
	if (stacks->hidden) {
		stacks->hidden--;
		return;
	}
	for (unsigned depth = stacks->depth; depth; depth--)
		if (stacks->frames[depth - 1].address == next) {
			stacks->depth = depth - 1;
			return;
		}
}

void stacks_transferred(struct stacks *stacks, const struct code_block *block, uint64_t next)
{
	if (block->end == ENDS_RETURN)
		pop(stacks, next);
	/* A call of the next instruction asks where it is. */
	else if (next != block->past)
		push(stacks, block->past);
}

void stacks_begin(struct stacks *stacks, uint32_t window, uint32_t process,
		  const uint64_t *addresses, unsigned count)
{
	stacks->window = window;
	stacks->process = process;
	stacks->depth = stacks->hidden = 0;
	while (count--)
		push(stacks, addresses[count]);
}

void stacks_free(struct stacks *stacks)
{
	free(stacks->nodes);
	free(stacks->rows);
	free(stacks->node_index.slots);
	free(stacks->row_index.slots);
	memset(stacks, 0, sizeof(*stacks));
}

int stacks_walked(struct stacks *stacks, enum tlb_size size, uint64_t address)
{
	const int64_t stack = current_stack(stacks);
	const struct sought sought = { address, stacks->window, (uint32_t)stack };
	struct stack_row *rows;
	uint32_t *slot;

	rows = grow(stacks->rows, stacks->row_count, &stacks->row_capacity, sizeof(*rows));
	if (rows)
		stacks->rows = rows;
	if (stack < 0 || !rows ||
	    grow_index(stacks, &stacks->row_index, of_row, stacks->row_count) < 0) {
		errno = ENOMEM;
		return -1;
	}
	slot = slot_of(stacks, &stacks->row_index, of_row, &sought);
	if (!*slot) {
		rows[stacks->row_count++] = (struct stack_row){ address, stacks->window,
								(uint32_t)stack, { 0 } };
		*slot = (uint32_t)stacks->row_count;
	}
	stacks->rows[*slot - 1u].walks[size]++;
	return 0;
}
