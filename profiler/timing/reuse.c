/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reuse.h"

#define STEPS (1u << REUSE_STEPS_SHIFT)

static uint32_t step_of(uint64_t age)
{
	const uint32_t log = age ? 63 - (uint32_t)__builtin_clzll(age) : 0;
	uint32_t step;

	if (age < STEPS)
		return (uint32_t)age;
	step = (log - REUSE_STEPS_SHIFT + 1) * STEPS +
	       (uint32_t)(age >> (log - REUSE_STEPS_SHIFT)) % STEPS;
	return step < REUSE_AGES ? step : REUSE_AGES - 1;
}

/* The lowest age of a step. */
static uint64_t begin_of(uint32_t step)
{
	const uint32_t log = step / STEPS;

	return log ? (uint64_t)(STEPS + step % STEPS) << (log - 1) : step;
}

void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age, uint64_t usual)
{
	if (age >= NEVER_ACCESSED) {
		reuse->first[kind] += REUSE_ONE;
		return;
	}
	reuse->aged[kind][step_of(age)] += REUSE_ONE;
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
		for (uint32_t step = REUSE_AGES; step-- > 0;)
			older[step] = older[step + 1] + reuse->aged[kind][step];
	}
}

void reuse_thin(struct reuse *reuse)
{
	lose_half(reuse);
	reuse->sampled /= 2;
}

/* Accesses of this age: how many were sampled, without those of lines that are kept. */
static double seen(const struct reuse *reuse, uint32_t step, uint32_t kinds,
		   const struct reuse_kept *kept)
{
	const uint32_t log = reuse_log(begin_of(step));
	double count = 0;

	for (uint32_t kind = 0; kind < kinds; kind++)
		count += (double)reuse->aged[kind][step] *
			 (REUSE_ALL - kept->part[kind][log]) / REUSE_ALL;
	return count;
}

/*
 * The number of different lines that are accessed in a time is the sum of P(age > i) over all i
 * of it.
 */
static uint64_t least_recently_used(const struct reuse *reuse, double lines, uint32_t kinds,
				    const struct reuse_kept *kept)
{
	double older = 0, filled = 0;

	for (uint32_t kind = 0; kind < kinds; kind++)
		older += (double)reuse->first[kind];
	for (uint32_t step = 0; step < REUSE_AGES; step++)
		older += seen(reuse, step, kinds, kept);
	for (uint32_t step = 0; step < REUSE_AGES; step++) {
		const uint64_t begin = begin_of(step), end = begin_of(step + 1);
		const double here = seen(reuse, step, kinds, kept), middle = older - here / 2;
		const double more = middle * (double)(end - begin);

		if (filled + more >= lines && middle > 0)
			return begin + (uint64_t)((lines - filled) / middle);
		filled += more;
		older -= here;
	}
	return NEVER_ACCESSED;
}

/* As counts of the lines sampled, over the whole span. */
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

/* Of lines accessed at ages of this log2: how many are kept, out of REUSE_ALL. */
static uint16_t part_of(const uint64_t *by_usual, const uint16_t *usual)
{
	uint64_t all = 0, there = 0;

	for (uint32_t log = 0; log < REUSE_LOGS; log++) {
		all += by_usual[log];
		there += by_usual[log] * usual[log];
	}
	return (uint16_t)(all ? there / all : 0);
}

/*
 * Little's law: lines of one usual age take as much room as the ages of all their accesses, summed,
 * over the time in which these were made.
 */
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
	uint32_t step = step_of(beyond), after = REUSE_AGES;
	uint64_t chosen, begin, age;

	if (!older[step])
		return NEVER_ACCESSED;
	/* As many of those left are no older. */
	chosen = older[step] - random % older[step];
	if (chosen <= older[REUSE_AGES])
		return NEVER_ACCESSED;
	while (after - step > 1) {
		const uint32_t middle = (step + after) / 2;

		if (older[middle] >= chosen)
			step = middle;
		else
			after = middle;
	}
	begin = begin_of(step);
	age = begin + (begin_of(step + 1) - begin) * (older[step] - chosen) /
			      (older[step] - older[step + 1]);
	return age > beyond ? age : beyond;
}

uint64_t reuse_spread(uint64_t age, uint64_t random)
{
	const uint64_t begin = begin_of(step_of(age));

	return begin + random % (begin_of(step_of(age) + 1) - begin);
}
