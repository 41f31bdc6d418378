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

void reuse_saw(struct reuse *reuse, enum line_kind kind, uint64_t age)
{
	if (age >= NEVER_ACCESSED)
		reuse->first[kind]++;
	else
		reuse->aged[kind][step_of(age)]++;
}

/* Divide all counts. */
static void lose(struct reuse *reuse, uint64_t one_in)
{
	for (uint32_t kind = 0; kind < LINE_KINDS; kind++) {
		reuse->first[kind] -= reuse->first[kind] / one_in;
		for (uint32_t step = 0; step < REUSE_AGES; step++)
			reuse->aged[kind][step] -= reuse->aged[kind][step] / one_in;
	}
}

void reuse_fade(struct reuse *reuse, uint64_t time)
{
	reuse->span += time - reuse->until;
	reuse->until = time;
	reuse->span -= reuse->span / 2;
	lose(reuse, 2);
	for (uint32_t kind = 0; kind < LINE_KINDS; kind++) {
		uint64_t *older = reuse->older[kind];

		older[REUSE_AGES] = reuse->first[kind];
		for (uint32_t step = REUSE_AGES; step-- > 0;)
			older[step] = older[step + 1] + reuse->aged[kind][step];
	}
}

void reuse_thin(struct reuse *reuse)
{
	lose(reuse, 2);
	reuse->rarity++;
}

/* Accesses of this kind and age, per reference: how many were sampled. */
static uint64_t seen(const struct reuse *reuse, uint32_t step, bool tables)
{
	return reuse->aged[LINE_DATA][step] + (tables ? reuse->aged[LINE_TABLE][step] : 0);
}

/*
 * The number of different lines that are accessed in a time is the sum of P(age > i) over all i
 * of it.
 */
static uint64_t least_recently_used(const struct reuse *reuse, double lines, bool tables)
{
	uint64_t older = reuse->first[LINE_DATA] + (tables ? reuse->first[LINE_TABLE] : 0);
	double filled = 0;

	for (uint32_t step = 0; step < REUSE_AGES; step++)
		older += seen(reuse, step, tables);
	for (uint32_t step = 0; step < REUSE_AGES; step++) {
		const uint64_t begin = begin_of(step), end = begin_of(step + 1);
		const double middle = (double)older - (double)seen(reuse, step, tables) / 2;
		const double more = middle * (double)(end - begin);

		if (filled + more >= lines)
			return begin + (uint64_t)((lines - filled) / middle);
		filled += more;
		older -= seen(reuse, step, tables);
	}
	return NEVER_ACCESSED;
}

/* As counts of the lines sampled, over the whole span. */
static double sampled(const struct reuse *reuse, uint64_t lines)
{
	return (double)lines * (double)reuse->span / (double)(UINT64_C(1) << reuse->rarity);
}

uint64_t reuse_evicted_after(const struct reuse *reuse, uint64_t lines, bool tables)
{
	return reuse->span ? least_recently_used(reuse, sampled(reuse, lines), tables) :
			     NEVER_ACCESSED;
}

/* Lines that are accessed again at an age are there for that long: as many at a time as the product. */
uint64_t reuse_kept_for(const struct reuse *reuse, uint64_t lines, bool tables)
{
	const double room = sampled(reuse, lines);
	double filled = 0;

	for (uint32_t step = 0; reuse->span && step < REUSE_AGES; step++) {
		const uint64_t begin = begin_of(step), end = begin_of(step + 1);
		const double more = (double)seen(reuse, step, tables) * (double)(begin + end) / 2;

		if (filled + more >= room)
			return begin + (uint64_t)((double)(end - begin) * (room - filled) / more);
		filled += more;
	}
	return NEVER_ACCESSED;
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
