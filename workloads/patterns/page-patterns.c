/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How bad, and how good, can large pages be?  The ten access patterns of
 * P. Khuong's article "How bad can 1GB pages be?" (2014), in the order of its
 * last table, and as number 11 the random reads of 8 bytes in 4 GiB of
 * "Huge Pages are a Good Idea" (2023).  Patterns 1 to 10 read one byte at
 *
 *	(x * stride + (x * offset) % 1 GiB) % size, stride = size / chunks,
 *
 * for an x below `chunks` that random() draws; its first 2^20 (or 2^10) draws are a vector
 * that is traversed again and again.  --size scales what does not fit memory: patterns 2 to 6
 * have one chunk in each GiB, the others as many chunks as in the article.  Only what is read
 * is touched, unless --fill says otherwise; pattern 11 writes all.  No access waits for the
 * one before.
 */
#include "backed.h"
#include "timed.h"

#define PATTERNS 11u
#define RANDOM_READS 11u
#define GIB (UINT64_C(1) << 30)
#define LARGE 20u		/* log2 of the vector's length */
#define SMALL 10u

struct pattern {
	uint64_t size, chunks;	/* chunks 0: one in each GiB */
	uint64_t offset;
	unsigned draws;		/* log2 */
};

static const struct pattern patterns[PATTERNS - 1] = {
	{ 24 * GIB, 512, 0, LARGE },
	{ 24 * GIB, 0, 0, LARGE },
	{ 24 * GIB, 0, 4096, LARGE },
	{ 24 * GIB, 0, 2u << 20, LARGE },
	{ 24 * GIB, 0, 4096 + (2u << 20), LARGE },
	{ 24 * GIB, 0, 4096 + (2u << 20) + 64, SMALL },
	{ 4 * GIB, 4096, 64, SMALL },
	{ 4 * GIB, 4096, 4096 + 64, SMALL },
	/* The article gives neither chunks nor draws of these two: as before. */
	{ 64u << 20, 4096, 64, SMALL },
	{ 64u << 20, 4096, 4096 + 64, SMALL },
};

/* What is done, and how much: `draws` places, of which `distinct` differ. */
struct work {
	uint64_t number, size, chunks, stride, offset;
	uint64_t *places, draws, count;
	uint64_t distinct[4];	/* lines, and pages of 4 KiB, 2 MiB and 1 GiB */
};

static const unsigned shifts[4] = { 6, 12, 21, 30 };

static void refuse(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(2);
}

/* Base pages, whatever the array is on, as in the article. */
static uint64_t *vector(uint64_t n)
{
	const size_t bytes = (size_t)((n * sizeof(uint64_t) + 4095) & ~UINT64_C(4095));
	uint64_t *places = aligned_alloc(4096, bytes);

	if (!places) {
		perror("cannot allocate the vector of places");
		exit(1);
	}
	madvise(places, bytes, MADV_NOHUGEPAGE);
	return places;
}

/* As the article computes it, with its types: the first in floating point. */
static uint64_t draw(uint64_t number, uint64_t chunks)
{
	const long drawn = random();

	if (number == 1)
		return (uint64_t)((double)chunks * (double)drawn / RAND_MAX);
	return chunks * (uint64_t)drawn / RAND_MAX;
}

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void count_distinct(struct work *work)
{
	uint64_t *sorted = vector(work->draws);

	memcpy(sorted, work->places, work->draws * sizeof(*sorted));
	qsort(sorted, work->draws, sizeof(*sorted), ascending);
	for (unsigned s = 0; s < 4; s++) {
		work->distinct[s] = 1;
		for (uint64_t i = 1; i < work->draws; i++)
			work->distinct[s] += sorted[i] >> shifts[s] !=
					     sorted[i - 1] >> shifts[s];
	}
	free(sorted);
}

/* Patterns 1 to 10: the vector of places. */
static void draw_places(struct work *work)
{
	const struct pattern *pattern = &patterns[work->number - 1];

	work->size = work->size ? work->size : pattern->size;
	if (pattern->size > GIB && pattern->chunks <= 512 && work->size % GIB)
		refuse("--size must be a multiple of 1 GiB for patterns 1 to 6");
	if (work->size % (WORKLOAD_PAGE_BYTES * UINT64_C(4096)))
		refuse("--size must be a multiple of 16 MiB for patterns 7 to 10");
	work->chunks = pattern->chunks ? pattern->chunks : work->size / GIB;
	work->stride = work->size / work->chunks;
	work->offset = pattern->offset;
	work->draws = UINT64_C(1) << pattern->draws;
	if (work->count < work->draws)
		work->draws = work->count;
	work->places = vector(work->draws);
	for (uint64_t i = 0; i < work->draws; i++) {
		const uint64_t x = draw(work->number, work->chunks);

		work->places[i] = (x * work->stride + x * work->offset % GIB) % work->size;
	}
}

/* Something else in each byte, so that the sum depends on every read. */
static void touch(const struct work *work, char *data)
{
	for (uint64_t i = 0; i < work->draws; i++) {
		const uint64_t place = work->places[i];

		data[place] = (char)(place >> 6 ^ place >> 12 ^ place >> 21 ^ place >> 28);
	}
}

static __attribute__((noinline)) uint64_t read_places(const struct work *work,
						      const char *data)
{
	const uint64_t *places = work->places, draws = work->draws;
	uint64_t sum = 0;

	for (uint64_t left = work->count; left; ) {
		const uint64_t n = left < draws ? left : draws;

		for (uint64_t i = 0; i < n; i++)
			sum += (unsigned char)data[places[i]];
		left -= n;
	}
	return sum;
}

/*
 * The article's loop, without optimisation: its 7.4 to 8.1 cycles per read without a miss are
 * those of a sum in memory, where each addition waits for the previous store.
 */
static __attribute__((noinline, optimize("O0"))) uint64_t
read_as_written(const struct work *work, const char *data)
{
	const uint64_t *indices = work->places, draws = work->draws;
	const uint64_t rounds = work->count / draws;
	char acc = 0;

	for (uint64_t i = 0; i < rounds; i++)
		for (uint64_t j = 0; j < draws; j++)
			acc = (char)(acc + data[indices[j]]);
	return (unsigned char)acc;
}

static __attribute__((noinline)) uint64_t read_at_random(const struct work *work,
							 const uint64_t *words,
							 uint64_t seed)
{
	const uint64_t n = work->size / sizeof(*words);
	uint64_t state = workload_seed(seed), sum = 0;

	for (uint64_t i = 0; i < work->count; i++)
		sum += words[workload_below(workload_random(&state), n)];
	return sum;
}

/* As the article does: frames are then as scattered as the places. */
static void touch_all(const struct work *work, char *data)
{
	for (uint64_t at = 0; at < work->size; at += WORKLOAD_PAGE_BYTES)
		data[at] = 0;
}

static void prepare(struct work *work, struct backed *memory, int fill)
{
	uint64_t *words, whole = WORKLOAD_HUGE_BYTES;

	if (work->number != RANDOM_READS) {
		draw_places(work);
	} else {
		work->size = work->size ? work->size : 4 * GIB;
		workload_at_most_32_bits(work->size / sizeof(*words));
	}
	/* Without a requested size, each must be possible. */
	if (!memory->page_bytes || memory->page_bytes > whole)
		whole = memory->page_bytes ? memory->page_bytes : GIB;
	memory->bytes = (work->size + whole - 1) & ~(whole - 1);
	backed_map(memory);
	words = (uint64_t *)(void *)memory->start;
	if (fill)
		touch_all(work, memory->start);
	if (work->number != RANDOM_READS)
		touch(work, memory->start);
	else
		for (uint64_t i = 0; i < work->size / sizeof(*words); i++)
			words[i] = i;
}

static void print_number(uint64_t n, int known)
{
	if (known)
		printf("%llu\t", (unsigned long long)n);
	else
		fputs("NA\t", stdout);
}

/* The table "pattern" of doc/format.md. */
static void print_table(const struct work *work, const struct backed *memory,
			const struct backed_proof *proof, double ns, double rate)
{
	const int drawn = work->number != RANDOM_READS;

	puts("# tlbcost pattern 1");
	puts("pattern\tpage_size_bytes\tsize_bytes\tchunks\tstride_bytes\toffset_bytes\tdraws\t"
	     "lines\tpages_4k\tpages_2m\tpages_1g\tresident_bytes\tproven_bytes\t"
	     "accesses\telapsed_ns\tcycles_per_ns");
	print_number(work->number, 1);
	print_number(memory->page_bytes, memory->page_bytes != 0);
	print_number(work->size, 1);
	print_number(work->chunks, drawn);
	print_number(work->stride, drawn);
	print_number(work->offset, drawn);
	print_number(work->draws, drawn);
	for (unsigned s = 0; s < 4; s++)
		print_number(drawn ? work->distinct[s] :
			     (work->size + (UINT64_C(1) << shifts[s]) - 1) >> shifts[s], 1);
	print_number(proof->resident_bytes, 1);
	print_number(proof->proven_bytes, memory->page_bytes != 0);
	printf("%llu\t%.0f\t%.6g\n# end: 1\n", (unsigned long long)work->count, ns, rate);
}

int main(int argc, char **argv)
{
	struct work work = { .number = 1, .count = UINT64_C(1) << 27 };
	struct backed memory = { NULL, 0, 0, 0 };
	struct backed_proof proof;
	uint64_t seed = 1, fill = 0, plain = 0, table = 0, transparent = 0, sum;
	const struct workload_option options[] = {
		{ "count", &work.count, 1, "accesses" },
		{ "fill", &fill, 0, "1: touch all of the memory, not only what is read" },
		{ "madvise", &transparent, 0, "1: ask for transparent pages of that size" },
		{ "page", &memory.page_bytes, 0, "bytes of a page, proven; 0: whatever comes" },
		{ "pattern", &work.number, 1, "1 to 11" },
		{ "plain", &plain, 0, "1: patterns 1 to 10 by a loop that no compiler improved" },
		{ "seed", &seed, 0, "of the random places; the article's is 1" },
		{ "size", &work.size, 0, "bytes of the memory; 0: the article's" },
		{ "table", &table, 0, "1: print what was done and how long it took" },
	};
	double ns, rate;

	(void)argc;
	WORKLOAD_PARSE(argv, "Access patterns that are bad or good for large pages.", options);
	if (work.number > PATTERNS)
		refuse("--pattern must be a number from 1 to 11");
	if (memory.page_bytes & (memory.page_bytes - 1) ||
	    (memory.page_bytes && memory.page_bytes < backed_base_bytes()))
		refuse("--page must be the size of a page");
	memory.transparent = transparent && memory.page_bytes > backed_base_bytes();
	srandom((unsigned)seed);
	prepare(&work, &memory, fill != 0);
	proof = memory.page_bytes || table ? backed_prove(&memory) :
					     (struct backed_proof){ 0, 0 };
	rate = table ? timed_cycles_per_ns() : 0;
	ns = timed_ns();
	sum = work.number == RANDOM_READS ?
		      read_at_random(&work, (uint64_t *)(void *)memory.start, seed) :
	      plain ? read_as_written(&work, memory.start) :
		      read_places(&work, memory.start);
	ns = timed_ns() - ns;
	if (table) {
		rate = (rate + timed_cycles_per_ns()) / 2;
		if (work.number != RANDOM_READS)
			count_distinct(&work);
		print_table(&work, &memory, &proof, ns, rate);
	}
	return workload_finish(sum);
}
