/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "residency.h"

#define QUANTILES 64u
#define ONE 256u
/* Longer than any program runs, and short enough to be multiplied by the tables' numbers. */
#define FOR_EVER (UINT64_MAX >> 11)
/* Fractional bits of the cache's share. */
#define FRACTION 20u
/* Before this, too little was seen to know how often lines are accessed. */
#define FEWEST_WINDOWS 4u
#define FEWEST_LINES 64u

/* sqrt(-log2 p) and -ln p for p = 1/128, 3/128, ..., in 256ths. */
static const uint16_t lifetime[QUANTILES] = {
	677, 596, 554, 524, 501, 482, 465, 450, 437, 425, 413, 403, 393, 384,
	375, 366, 358, 350, 343, 335, 328, 321, 314, 308, 301, 295, 289, 283,
	277, 271, 265, 259, 253, 247, 242, 236, 230, 225, 219, 214, 208, 202,
	197, 191, 185, 180, 174, 168, 162, 156, 150, 143, 137, 130, 123, 116,
	109, 101, 92, 83, 73, 61, 47, 27,
};
static const uint16_t interval[QUANTILES] = {
	1242, 961, 830, 744, 680, 628, 585, 549, 517, 488, 463, 439, 418, 398,
	380, 363, 347, 332, 318, 304, 291, 279, 268, 256, 246, 236, 226, 216,
	207, 198, 190, 181, 173, 166, 158, 151, 144, 137, 130, 124, 117, 111,
	105, 99, 93, 87, 82, 76, 71, 66, 61, 56, 51, 46, 41, 36, 32, 27, 23,
	19, 14, 10, 6, 2,
};

/*
 * The age at which a last-level cache has evicted a line, in 256ths of the age at which LRU would:
 * the same quantiles, measured with chains of 0.5 to 8 times the L3 on two Sandy Bridges, two
 * Haswells, a Broadwell and three Zen 2 (InstLatX64, Page_Random).  It is the mean of curves that
 * differ by up to a fifth (l3_lifetime).
 */
static const uint16_t evicted[QUANTILES] = {
	566, 521, 493, 472, 451, 429, 408, 395, 392, 388, 385, 381, 378, 374,
	371, 367, 364, 360, 357, 353, 350, 346, 343, 339, 336, 332, 329, 326,
	322, 319, 316, 313, 310, 306, 303, 300, 297, 293, 290, 287, 284, 280,
	277, 274, 271, 268, 265, 262, 258, 256, 254, 252, 250, 248, 247, 243,
	237, 231, 226, 220, 214, 208, 192, 158,
};

/*
 * Windows are few.  Twice the number of lines seen in two of them, over the number seen in
 * one, is how often a line that was in none before is accessed in the time of all windows
 * (Good, Biometrika 40, 1953).  Until that is known, all lines that the program has touched
 * are assumed to be accessed in turn.
 */
static ticks unseen_interval(const struct timing_config *config, ticks time,
			     uint64_t touched, const struct sightings *seen)
{
	const uint64_t once = seen->first - seen->second;
	const uint64_t twice = seen->second - seen->third;

	if (seen->windows >= FEWEST_WINDOWS && once >= FEWEST_LINES)
		return time / (2 * twice + 1) * once;
	/* Before anything was seen, they come from memory one after the other. */
	return touched * (seen->asked ? time / seen->asked :
					(ticks)config->memory_cycles * TICKS_PER_CYCLE);
}

/*
 * The age at which a line is evicted: others' lines and the program's together fill the cache.
 * The number of different lines accessed in a time t is rate x sum of P(age > i) over all i <
 * t (StatStack: Eklov and Hagersten, ISPASS 2010).
 */
static ticks leaves_after(const struct sightings *seen, ticks half_life, uint64_t lines)
{
	uint64_t older = 0, own = 0, filled = 0;
	ticks begin = 0;

	for (uint32_t i = 0; i < AGES; i++)
		older += seen->aged[i];
	if (!seen->span || !lines)
		return half_life;
	for (uint32_t i = 0; i < AGES; i++) {
		const ticks end = (ticks)2 << i;
		uint64_t before = filled;

		own += (older - seen->aged[i] / 2) * ((end - begin) / 2) /
		       (seen->span / 2 + 1);
		filled = (own << FRACTION) / lines + (end << FRACTION) / half_life;
		if (filled >= 1 << FRACTION)
			return begin + (end - begin) * ((1 << FRACTION) - before) /
					       (filled - before);
		older -= seen->aged[i];
		begin = end;
	}
	return half_life;
}

/*
 * One of the measured times for each window: equally many windows for each, also among every
 * second or fourth window, which may be all that remain in the end.
 */
static ticks half_life_in(const struct timing_config *config, uint64_t window)
{
	/* The golden section, out of 2^32. */
	const uint64_t place = (window * UINT64_C(2654435769)) & UINT32_MAX;
	uint64_t known = 0;

	while (known < MOST_HALF_LIVES && config->l3_half_life_cycles[known])
		known++;
	return (ticks)config->l3_half_life_cycles[place * known >> 32] * TICKS_PER_CYCLE;
}

/* Old observations count less. */
static void fade(struct sightings *seen, ticks time)
{
	seen->span += time - seen->until;
	seen->span -= seen->span / 4;
	seen->until = time;
	for (uint32_t i = 0; i < AGES; i++)
		seen->aged[i] -= seen->aged[i] / 4;
}

void residency_begin(struct residency *residency,
		     const struct timing_config *config, ticks time,
		     uint64_t touched, struct sightings *seen)
{
	fade(seen, time);
	residency->half_life = leaves_after(seen, half_life_in(config, seen->windows),
				       config->l3_bytes >> LINE_SHIFT);
	residency->modelled = time;
	residency->often = seen->windows >= FEWEST_WINDOWS;
	residency->unseen = unseen_interval(config, time, touched, seen);
	residency->reuse = NULL;
	seen->windows++;
}

/* References as time. */
static ticks lasting(const struct residency *residency, uint64_t references)
{
	return references == NEVER_ACCESSED ? FOR_EVER : references * residency->per_reference;
}

void residency_begin_seen(struct residency *residency, const struct timing_config *config,
			  const struct reuse *reuse, bool tables)
{
	const uint64_t lines = config->l3_bytes >> LINE_SHIFT;
	const uint64_t keeping = lines * config->l3_adaptive / 100;

	residency->reuse = reuse;
	residency->often = true;
	residency->kept = reuse_kept(reuse, keeping, tables);
	residency->half_life = lasting(
		residency, reuse_evicted_after(reuse, lines - keeping, tables, &residency->kept));
	if (config->l3_lifetime)
		residency->half_life = residency->half_life / 100 * config->l3_lifetime;
}

/* Is it in the part that protects reused lines? */
static bool is_kept(const struct residency *residency, enum line_kind kind, ticks age,
		    uint64_t random)
{
	if (!residency->reuse || age >= NEVER_ACCESSED)
		return false;
	age /= residency->per_reference ? residency->per_reference : 1;
	return random % REUSE_ALL < residency->kept.part[kind][reuse_log(age)];
}

bool residency_left(const struct residency *residency, enum line_kind kind, ticks age,
		    uint64_t random)
{
	const uint16_t *lasts = residency->reuse ? evicted : lifetime;

	if (is_kept(residency, kind, age, random / QUANTILES))
		return true;
	return age < residency->half_life * lasts[random % QUANTILES] / ONE;
}

ticks residency_age(const struct residency *residency, enum line_kind kind, ticks now,
		    uint32_t windows, uint64_t random)
{
	ticks mean;
	uint64_t age;

	if (residency->reuse) {
		age = reuse_age(residency->reuse, kind,
				(now - residency->begin) / (residency->per_reference + 1), random);
		return age == NEVER_ACCESSED ? NEVER_ACCESSED : age * residency->per_reference;
	}
	mean = windows ? residency->modelled / (windows + 1) :
			       residency->unseen;

	return now - residency->begin + mean * interval[random % QUANTILES] / ONE;
}

ticks residency_spread(const struct residency *residency, ticks age, uint64_t random)
{
	const ticks each = residency->per_reference;

	return each ? reuse_spread(age / each, random) * each : age;
}
