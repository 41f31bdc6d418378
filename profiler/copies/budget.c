/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "budget.h"

/*
 * Measured: 25 to 30 ms a GiB for its page tables, and a tenth of its pages written while it lives.
 */
#define TABLES_NS_PER_BYTE (28e6 / (1 << 30))
#define WRITTEN_PART 0.1
#define LEAST_COPY_NS 300000u
#define PAUSE_DECAY 0.9
/* What a copy costs is known only after its death: to plan all of the budget would overspend it. */
#define PLANNED_PART 0.9
/* With more windows than this, another one adds little: strata grow with the run. */
#define MANY_COPIES 64u
/* Of a number of copies, ever fewer are taken: this says how fast. */
#define THINNING 3u

uint64_t budget_predict(const struct budget *budget, uint64_t resident_bytes)
{
	const double first =
		TABLES_NS_PER_BYTE + WRITTEN_PART * (double)budget->fault_ns / 4096;
	const double rate = budget->copies ? budget->ns_per_byte : first;
	const uint64_t ns = (uint64_t)(rate * (double)resident_bytes);

	return (ns > LEAST_COPY_NS ? ns : LEAST_COPY_NS) + budget->work_ns;
}

/* The last copies weigh most: programs have phases. */
static double blend(double old, double new, uint64_t copies)
{
	return copies ? old + (new - old) / 3 : new;
}

void budget_charge(struct budget *budget, const struct copy_cost *cost)
{
	const uint64_t ns = cost->pause_ns + cost->faults * budget->fault_ns;
	const double bytes = cost->resident_bytes ? (double)cost->resident_bytes : 1e6;

	budget->spent_ns += ns;
	budget->ns_per_byte = blend(budget->ns_per_byte, (double)ns / bytes, budget->copies);
	budget->copy_ns = (uint64_t)blend((double)budget->copy_ns, (double)ns, budget->copies);
	budget->copies++;
}

void budget_charge_late(struct budget *budget, uint64_t late_faults)
{
	const double ns = (double)(late_faults * budget->fault_ns) / BUDGET_REUSES;

	if (!budget->copies || !budget->copy_ns)
		return;
	budget->spent_ns += (uint64_t)ns;
	/* The next copy will cost this as well: a third counts, as in blend(). */
	budget->ns_per_byte *= 1 + ns / 3 / (double)budget->copy_ns;
	budget->copy_ns += (uint64_t)(ns / 3);
}

void budget_note_pause(struct budget *budget, uint64_t pause_ns, uint64_t resident_bytes)
{
	const double rate = (double)pause_ns / (resident_bytes ? (double)resident_bytes : 1e6);

	budget->pause_ns_per_byte = rate > budget->pause_ns_per_byte ?
		rate : blend(budget->pause_ns_per_byte, rate, 1);
}

bool budget_pause_is_too_long(struct budget *budget, uint64_t resident_bytes)
{
	const double rate = budget->pause_ns_per_byte > TABLES_NS_PER_BYTE ?
		budget->pause_ns_per_byte : TABLES_NS_PER_BYTE;
	const double ns = rate * (double)resident_bytes + LEAST_COPY_NS;

	if (!budget->most_pause_ns || ns <= (double)budget->most_pause_ns)
		return false;
	budget->pause_ns_per_byte *= PAUSE_DECAY;
	return true;
}

void budget_charge_work(struct budget *budget, uint64_t ns)
{
	budget->spent_ns += ns;
	budget->work_ns = (uint64_t)blend((double)budget->work_ns, (double)ns, budget->works);
	budget->works++;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A number of copies was asked for. */
static uint64_t by_number(const struct budget *budget, uint64_t cpu_ns)
{
	const uint64_t most = budget->most_copies;

	if (budget->copies >= most)
		return UINT64_MAX;
	if (budget->expected_cpu_ns)
		return larger(budget->expected_cpu_ns / most, 1);
	/* Some are left, however long the run is. */
	return larger(BUDGET_SHORTEST_NS / 4, THINNING * cpu_ns / (most - budget->copies));
}

uint64_t budget_stratum(const struct budget *budget, uint64_t cpu_ns, uint64_t resident_bytes)
{
	const double fraction = PLANNED_PART * budget->fraction;
	double allowed, debt, length;

	if (budget->most_copies)
		return by_number(budget, cpu_ns);
	if (fraction <= 0)
		return UINT64_MAX;
	allowed = fraction * (double)cpu_ns;
	debt = (double)budget->spent_ns - allowed;
	length = (double)budget_predict(budget, resident_bytes);
	if (debt > 0)
		length += debt;
	length /= fraction;
	if (length > 1e18)
		return UINT64_MAX;
	return larger(larger((uint64_t)length, BUDGET_SHORTEST_NS), cpu_ns / MANY_COPIES);
}

/* SplitMix64. */
uint64_t budget_random(uint64_t *state, uint64_t below)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	/* Not quite uniform, by one in 2^64 / below. */
	return below ? z % below : 0;
}
