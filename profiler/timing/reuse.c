/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reuse.h"

#define BINS (1u << REUSE_BINS_SHIFT)

static uint32_t bin_of(uint64_t age)
{
	const uint32_t log = age ? 63 - (uint32_t)__builtin_clzll(age) : 0;
	uint32_t bin;

	if (age < BINS)
		return (uint32_t)age;
	bin = (log - REUSE_BINS_SHIFT + 1) * BINS +
	       (uint32_t)(age >> (log - REUSE_BINS_SHIFT)) % BINS;
	return bin < REUSE_AGES ? bin : REUSE_AGES - 1;
}

/* The lowest age of a bin. */
static uint64_t begin_of(uint32_t bin)
{
	const uint32_t log = bin / BINS;

	return log ? (uint64_t)(BINS + bin % BINS) << (log - 1) : bin;
}

void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age, uint64_t usual)
{
	if (age >= NEVER_ACCESSED) {
		reuse->first[kind] += REUSE_ONE;
		return;
	}
	reuse->aged[kind][bin_of(age)] += REUSE_ONE;
	reuse->usual[kind][reuse_log(age)][reuse_log(usual)] += REUSE_ONE;
	reuse->usual_sum[kind][reuse_log(usual)] += usual;
}

static void halve(uint64_t *counts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		counts[i] -= counts[i] / 2;
}

static void lose_half(struct reuse *reuse)
{
	halve(reuse->first, LINE_KINDS);
	for (uint32_t kind = 0; kind < LINE_KINDS; kind++) {
		halve(reuse->aged[kind], REUSE_AGES);
		halve(reuse->usual_sum[kind], REUSE_LOGS);
		for (uint32_t log = 0; log < REUSE_LOGS; log++)
			halve(reuse->usual[kind][log], REUSE_LOGS);
	}
}

void reuse_fade(struct reuse *reuse, uint64_t time)
{
	reuse->span += time - reuse->until;
	reuse->until = time;
	reuse->span -= reuse->span / 2;
	lose_half(reuse);
	for (uint32_t kind = 0; kind < LINE_KINDS; kind++) {
		uint64_t *older = reuse->older[kind];

		older[REUSE_AGES] = reuse->first[kind];
		for (uint32_t bin = REUSE_AGES; bin-- > 0;)
			older[bin] = older[bin + 1] + reuse->aged[kind][bin];
	}
}

void reuse_thin(struct reuse *reuse)
{
	lose_half(reuse);
	reuse->sampled /= 2;
}

/* Sampled accesses of this bin, without those of lines that are kept. */
static double seen(const struct reuse *reuse, uint32_t bin, uint32_t kinds,
		   const struct reuse_kept *kept)
{
	const uint32_t log = reuse_log(begin_of(bin));
	double count = 0;

	for (uint32_t kind = 0; kind < kinds; kind++)
		count += (double)reuse->aged[kind][bin] *
			 (REUSE_ALL - kept->part[kind][log]) / REUSE_ALL;
	return count;
}

/* The number of different lines accessed in a time t is the sum of P(age > i) for all i < t. */
static uint64_t least_recently_used(const struct reuse *reuse, double lines, uint32_t kinds,
				    const struct reuse_kept *kept)
{
	double older = 0, filled = 0;

	for (uint32_t kind = 0; kind < kinds; kind++)
		older += (double)reuse->first[kind];
	for (uint32_t bin = 0; bin < REUSE_AGES; bin++)
		older += seen(reuse, bin, kinds, kept);
	for (uint32_t bin = 0; bin < REUSE_AGES; bin++) {
		const uint64_t begin = begin_of(bin), end = begin_of(bin + 1);
		const double here = seen(reuse, bin, kinds, kept), middle = older - here / 2;
		const double more = middle * (double)(end - begin);

		if (filled + more >= lines && middle > 0)
			return begin + (uint64_t)((lines - filled) / middle);
		filled += more;
		older -= here;
	}
	return NEVER_ACCESSED;
}

/* Room for this many lines, in the units of the counts: sampled lines times the span. */
static double sampled(const struct reuse *reuse, uint64_t lines)
{
	return (double)lines * (double)reuse->span * reuse->sampled * REUSE_ONE;
}

uint64_t reuse_evicted_after(const struct reuse *reuse, uint64_t lines, bool tables,
			     const struct reuse_kept *kept)
{
	if (!reuse->span)
		return NEVER_ACCESSED;
	return least_recently_used(reuse, sampled(reuse, lines), tables ? LINE_KINDS : 1, kept);
}

/* Of the accesses of one age (log2): how many hit, out of REUSE_ALL. */
static uint16_t part_of(const uint64_t *by_usual, const uint16_t *usual)
{
	uint64_t all = 0, there = 0;

	for (uint32_t log = 0; log < REUSE_LOGS; log++) {
		all += by_usual[log];
		there += by_usual[log] * usual[log];
	}
	return (uint16_t)(all ? there / all : 0);
}

/* Little's law: lines of one usual age occupy the sum of their accesses' ages over the span. */
struct reuse_kept reuse_kept(const struct reuse *reuse, uint64_t lines, bool tables)
{
	const uint32_t kinds = tables ? LINE_KINDS : 1;
	double room = sampled(reuse, lines);
	uint16_t usual[REUSE_LOGS];
	struct reuse_kept kept = { .part = { { 0 } } };

	for (uint32_t log = 0; log < REUSE_LOGS; log++) {
		double wanted = 0, fits;

		for (uint32_t kind = 0; kind < kinds; kind++)
			wanted += (double)reuse->usual_sum[kind][log] * REUSE_ONE;
		fits = wanted > room ? room : wanted;
		usual[log] = wanted > 0 ? (uint16_t)(fits / wanted * REUSE_ALL) : 0;
		room -= fits;
	}
	for (uint32_t kind = 0; kind < kinds; kind++)
		for (uint32_t log = 0; log < REUSE_LOGS; log++)
			kept.part[kind][log] = part_of(reuse->usual[kind][log], usual);
	return kept;
}

uint64_t reuse_age(const struct reuse *reuse, enum line_kind kind, uint64_t beyond,
		   uint64_t random)
{
	const uint64_t *older = reuse->older[kind];
	uint32_t bin = bin_of(beyond), after = REUSE_AGES;
	uint64_t chosen, begin, age;

	if (!older[bin])
		return NEVER_ACCESSED;
	/* The rank of the drawn access among those that are old enough. */
	chosen = older[bin] - random % older[bin];
	if (chosen <= older[REUSE_AGES])
		return NEVER_ACCESSED;
	while (after - bin > 1) {
		const uint32_t middle = (bin + after) / 2;

		if (older[middle] >= chosen)
			bin = middle;
		else
			after = middle;
	}
	begin = begin_of(bin);
	age = begin + (begin_of(bin + 1) - begin) * (older[bin] - chosen) /
			      (older[bin] - older[bin + 1]);
	return age > beyond ? age : beyond;
}

uint64_t reuse_spread(uint64_t age, uint64_t random)
{
	const uint64_t begin = begin_of(bin_of(age));

	return begin + random % (begin_of(bin_of(age) + 1) - begin);
}
