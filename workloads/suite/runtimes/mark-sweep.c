/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Collect garbage: documents are trees of objects, whose leaves name words that
 * all share.  A document is read and made anew all the time; when no object is
 * free, those that can be reached are marked, and the others swept up in the
 * order of the heap.  The longer it runs, the more are a document's objects
 * apart.
 */
#include "workload.h"

#define CHILDREN 3u

struct object {
	struct object *child[CHILDREN];	/* the next free one: the first */
	uint64_t number;
	uint64_t marked;
	uint64_t text[3];
};

struct heap {
	struct object *objects;
	uint64_t n;
	struct object *free;
	uint64_t free_count;
	struct object **stack;		/* of those that were marked last */
	struct object **roots;
	uint64_t root_count;
};

static void mark(struct heap *heap, struct object *object)
{
	uint64_t depth = 0;

	if (!object || object->marked)
		return;
	object->marked = 1;
	heap->stack[depth++] = object;
	while (depth > 0) {
		object = heap->stack[--depth];
		for (unsigned i = 0; i < CHILDREN; i++) {
			struct object *child = object->child[i];

			if (child && !child->marked) {
				child->marked = 1;
				heap->stack[depth++] = child;
			}
		}
	}
}

static void collect(struct heap *heap)
{
	for (uint64_t i = 0; i < heap->root_count; i++)
		mark(heap, heap->roots[i]);
	heap->free = NULL;
	heap->free_count = 0;
	for (uint64_t i = heap->n; i-- > 0;) {
		struct object *object = &heap->objects[i];

		if (object->marked) {
			object->marked = 0;
		} else {
			object->child[0] = heap->free;
			heap->free = object;
			heap->free_count++;
		}
	}
}

static struct object *take(struct heap *heap, uint64_t number)
{
	struct object *object = heap->free;

	if (!object) {
		fputs("cannot allocate an object: all can be reached\n", stderr);
		exit(1);
	}
	heap->free = object->child[0];
	heap->free_count--;
	memset(object, 0, sizeof(*object));
	object->number = number;
	for (unsigned i = 0; i < 3; i++)
		object->text[i] = number + i;
	return object;
}

/* A tree of this many objects; where it has no child, there may be a word. */
static struct object *make_tree(struct heap *heap, uint64_t objects, uint64_t words,
				uint64_t *state)
{
	uint64_t random = workload_random(state);
	struct object *object = take(heap, random & 0xffff);

	objects--;
	for (unsigned i = 0; i < CHILDREN; i++) {
		uint64_t part = i < CHILDREN - 1 ? objects / (CHILDREN - i) : objects;

		if (part > 0)
			object->child[i] = make_tree(heap, part, words, state);
		else if (i == 0)
			object->child[i] = heap->roots[workload_below(random, words)];
		objects -= part;
	}
	return object;
}

/* Words are leaves, too. */
static uint64_t read_tree(const struct object *object)
{
	uint64_t sum = object->number + object->text[2];

	for (unsigned i = 0; i < CHILDREN; i++)
		if (object->child[i])
			sum += (i + 1) * read_tree(object->child[i]);
	return sum;
}

/* What is being made cannot be reached: there must be enough for all of it. */
static struct object *make_document(struct heap *heap, uint64_t most, uint64_t words,
				    uint64_t *state)
{
	uint64_t objects = 1 + workload_below(workload_random(state), most);

	if (heap->free_count < objects)
		collect(heap);
	return make_tree(heap, objects, words, state);
}

int main(int argc, char **argv)
{
	uint64_t objects = 4500000, documents = 100000, words = 100000, most = 60, count = 300000;
	uint64_t seed = 1, sum = 0, state;
	const struct workload_option options[] = {
		{ "count", &count, 0, "documents read and made anew" },
		{ "documents", &documents, 1, "at a time" },
		{ "most", &most, 1, "objects of a document" },
		{ "objects", &objects, 1, "of the heap" },
		{ "seed", &seed, 0, "of the documents" },
		{ "words", &words, 1, "that they share" },
	};
	struct heap heap;

	(void)argc;
	WORKLOAD_PARSE(argv, "Collect the garbage of a heap.", options);
	workload_at_most_32_bits(documents > words ? documents : words);
	heap = (struct heap){
		.objects = workload_memory(objects * sizeof(struct object)),
		.n = objects,
		.stack = workload_memory(objects * sizeof(struct object *)),
		.roots = workload_memory((words + documents) * sizeof(struct object *)),
	};
	state = workload_seed(seed);
	memset(heap.objects, 0, objects * sizeof(struct object));
	collect(&heap);
	/* The first roots are words. */
	for (; heap.root_count < words; heap.root_count++)
		heap.roots[heap.root_count] = take(&heap, heap.root_count);
	for (; heap.root_count < words + documents; heap.root_count++)
		heap.roots[heap.root_count] = make_document(&heap, most, words, &state);
	for (; count > 0; count--) {
		uint64_t which = words + workload_below(workload_random(&state), documents);

		sum = sum * 31 + read_tree(heap.roots[which]);
		heap.roots[which] = NULL;
		heap.roots[which] = make_document(&heap, most, words, &state);
	}
	free(heap.roots);
	free(heap.stack);
	free(heap.objects);
	return workload_finish(sum);
}
