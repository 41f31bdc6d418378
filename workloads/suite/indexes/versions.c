/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keep a map of which former versions can still be asked, as functional
 * languages do: a change copies the nodes on its way through a tree, and leaves
 * all others to the versions that share them.  When the space for nodes is full,
 * those that some version still has are copied to another space, one after the
 * other (Cheney's collector), and the rest is gone.
 */
#include "workload.h"

/* Node 0 is none; after it was copied, a node's key says so and its value says where. */
struct node {
	uint32_t key;
	uint32_t value;
	uint32_t left;
	uint32_t right;
};

#define COPIED UINT32_MAX

struct heap {
	struct node *nodes;
	struct node *others;	/* where the next collection copies to */
	uint32_t used;
	uint32_t size;
	uint32_t *versions;	/* roots, in a ring */
	uint64_t n_versions;
};

static uint32_t copied(struct heap *heap, uint32_t at)
{
	struct node *node = &heap->nodes[at];

	if (!at)
		return 0;
	if (node->key != COPIED) {
		heap->others[heap->used] = *node;
		node->key = COPIED;
		node->value = heap->used++;
	}
	return node->value;
}

static void collect(struct heap *heap)
{
	struct node *old = heap->nodes;

	heap->used = 1;
	for (uint64_t i = 0; i < heap->n_versions; i++)
		heap->versions[i] = copied(heap, heap->versions[i]);
	for (uint32_t i = 1; i < heap->used; i++) {
		heap->others[i].left = copied(heap, heap->others[i].left);
		heap->others[i].right = copied(heap, heap->others[i].right);
	}
	heap->nodes = heap->others;
	heap->others = old;
}

/* Nodes on the way to a key, or to where it is missing. */
static uint32_t way_to(const struct heap *heap, uint32_t at, uint32_t key)
{
	uint32_t n = 0;

	for (; at; n++) {
		const struct node *node = &heap->nodes[at];

		if (node->key == key)
			return n + 1;
		at = key < node->key ? node->left : node->right;
	}
	return n;
}

/* Room for a change of the version; exits 1 if there is none even after a collection. */
static void make_room(struct heap *heap, uint64_t version, uint32_t key)
{
	uint64_t needed = 1 + (uint64_t)way_to(heap, heap->versions[version], key);

	if (heap->used + needed <= heap->size)
		return;
	collect(heap);
	if (heap->used + needed > heap->size) {
		fputs("no place for a node: --nodes is too small\n", stderr);
		exit(1);
	}
}

/* The version afterwards is the only one that knows the new value. */
static void change(struct heap *heap, uint64_t version, uint32_t key, uint32_t value)
{
	uint32_t *from = &heap->versions[version], at = *from;

	for (;;) {
		struct node *new = &heap->nodes[heap->used];

		*from = heap->used++;
		if (!at) {
			*new = (struct node){ key, value, 0, 0 };
			return;
		}
		*new = heap->nodes[at];
		if (new->key == key) {
			new->value = value;
			return;
		}
		from = key < new->key ? &new->left : &new->right;
		at = *from;
	}
}

static uint32_t value_of(const struct heap *heap, uint64_t version, uint32_t key)
{
	uint32_t at = heap->versions[version];

	while (at && heap->nodes[at].key != key)
		at = key < heap->nodes[at].key ? heap->nodes[at].left : heap->nodes[at].right;
	return at ? heap->nodes[at].value : 0;
}

int main(int argc, char **argv)
{
	uint64_t nodes = 2 << 20, keys = 200000, versions = 12, every = 10000, count = 900000;
	uint64_t seed = 1, newest = 0, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "changes, and as many questions" },
		{ "every", &every, 1, "changes from one version to the next" },
		{ "keys", &keys, 1, "that the map may have" },
		{ "nodes", &nodes, 2, "that each of two spaces holds" },
		{ "seed", &seed, 0, "of the changes" },
		{ "versions", &versions, 1, "that are kept" },
	};
	struct heap heap = { 0 };

	(void)argc;
	WORKLOAD_PARSE(argv, "Keep a map of which former versions can be asked.", options);
	if (nodes > UINT32_MAX || keys > UINT32_MAX || versions > UINT32_MAX) {
		fputs("--nodes, --keys and --versions must be below 4G\n", stderr);
		return 2;
	}
	heap.nodes = workload_memory(nodes * sizeof(*heap.nodes));
	heap.others = workload_memory(nodes * sizeof(*heap.others));
	heap.versions = workload_memory(versions * sizeof(*heap.versions));
	memset(heap.versions, 0, versions * sizeof(*heap.versions));
	heap.n_versions = versions;
	heap.used = 1;
	heap.size = (uint32_t)nodes;
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t key = (uint32_t)workload_below(workload_random(&state), keys);
		uint64_t version;

		if (i && i % every == 0) {
			uint64_t before = newest;

			newest = (newest + 1) % versions;
			heap.versions[newest] = heap.versions[before];
		}
		make_room(&heap, newest, key);
		change(&heap, newest, key, (uint32_t)i + 1);
		version = workload_below(workload_random(&state), versions);
		key = (uint32_t)workload_below(workload_random(&state), keys);
		sum = sum * 31 + value_of(&heap, version, key);
	}
	free(heap.nodes);
	free(heap.others);
	free(heap.versions);
	return workload_finish(sum);
}
