/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arm_compare.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define MOST_WRITTEN 16384u
/* Pages that the pilot has not written: an arm that took another path may have. */
#define MOST_OTHERS 1024u
/* Read in one call from each process. */
#define BATCH 256u

/* Addresses of pages: all; if there are many, one in `every`. */
struct sample {
	uint64_t at[MOST_WRITTEN];
	size_t count, most, every, seen;
};

static void take(struct sample *sample, uint64_t at)
{
	if (sample->seen++ % sample->every)
		return;
	if (sample->count == sample->most) {
		for (size_t i = 0; i < sample->count / 2; i++)
			sample->at[i] = sample->at[2 * i];
		sample->count /= 2;
		sample->every *= 2;
		if ((sample->seen - 1) % sample->every)
			return;
	}
	sample->at[sample->count++] = at;
}

/*
 * Tell pages that the pilot wrote from others; if that is unknown, it wrote all.  The copy still
 * maps what the pilot got by its fork, so what the pilot has to itself it has written.
 */
static void sort_run(int pagemap, const struct page_run *run, const struct arm *pilot,
		     struct sample *written, struct sample *others)
{
	uint64_t entries[PAGEMAP_ENTRIES];

	for (uint64_t at = run->start; at < run->end;) {
		const size_t count = pagemap_read(pagemap, entries, at, run->end);

		/* In the copy that is still shared: to read it could allocate it. */
		for (size_t i = 0; i < count; i++, at += PAGE)
			if (!shared_memory_overlaps(&pilot->shared, at, PAGE))
				take(entries[i] & PAGEMAP_EXCLUSIVE ? written : others, at);
	}
}

static void sort_pages(const struct arm *pilot, const struct page_runs *runs,
		       struct sample *written, struct sample *others)
{
	char path[64];
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pilot->copy.pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < runs->count; i++)
		sort_run(pagemap, &runs->all[i], pilot, written, others);
	if (pagemap >= 0)
		close(pagemap);
}

/* One page each of these; a page that is not there (any more) is zeros. */
struct batch {
	uint8_t bytes[BATCH * PAGE];
	bool there[BATCH];
};

static void read_batch(struct batch *batch, const struct copy *copy, const uint64_t *at,
		       size_t count)
{
	struct iovec here = { batch->bytes, count * PAGE };
	struct iovec there[BATCH] = { { NULL, 0 } };

	for (size_t i = 0; i < count; i++) {
		there[i] = (struct iovec){ (void *)(uintptr_t)at[i], PAGE };
		batch->there[i] = true;
	}
	if (process_vm_readv(copy->pid, &here, 1, there, count, 0) == (ssize_t)(count * PAGE))
		return;
	/* A mapping may be gone in the meantime. */
	for (size_t i = 0; i < count; i++) {
		batch->there[i] = copy_read(copy, at[i], batch->bytes + i * PAGE, PAGE) == 0;
		if (!batch->there[i])
			memset(batch->bytes + i * PAGE, 0, PAGE);
	}
}

/* One batch of pages: as it was, and as it is in two arms. */
struct batches {
	struct batch was, left, right;
	uint64_t at[BATCH];
	size_t count;
};

static void compare_batch(struct batches *batches, const struct copy *before, const struct arm *one,
			  const struct arm *other, struct arm_difference *difference)
{
	read_batch(&batches->was, before, batches->at, batches->count);
	read_batch(&batches->left, &one->copy, batches->at, batches->count);
	read_batch(&batches->right, &other->copy, batches->at, batches->count);
	for (size_t i = 0; i < batches->count; i++) {
		const uint8_t *left = batches->left.bytes + i * PAGE;

		if (batches->left.there[i] != batches->right.there[i] ||
		    memcmp(left, batches->right.bytes + i * PAGE, PAGE) != 0)
			difference->different++;
		if (memcmp(left, batches->was.bytes + i * PAGE, PAGE) != 0)
			difference->changed++;
	}
	difference->compared += batches->count;
	batches->count = 0;
}

static void compare_sample(struct batches *batches, const struct sample *sample,
			   const struct copy *before, const struct arm *one,
			   const struct arm *other, struct arm_difference *difference)
{
	for (size_t i = 0; i < sample->count; i++) {
		batches->at[batches->count++] = sample->at[i];
		if (batches->count == BATCH || i + 1 == sample->count)
			compare_batch(batches, before, one, other, difference);
	}
}

void arm_compare(const struct copy *before, const struct arm *pilot, const struct arm *one,
		 const struct arm *other, const struct page_runs *runs,
		 struct arm_difference *difference)
{
	/* Too large for the stack; there is one thread. */
	static struct sample written, others;
	static struct batches batches;

	*difference = (struct arm_difference){ 0, 0, 0 };
	written.count = written.seen = others.count = others.seen = 0;
	written.every = others.every = 1;
	written.most = MOST_WRITTEN;
	others.most = MOST_OTHERS;
	sort_pages(pilot, runs, &written, &others);
	compare_sample(&batches, &written, before, one, other, difference);
	compare_sample(&batches, &others, before, one, other, difference);
}
