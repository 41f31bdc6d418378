/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Add up sales by customer, whose name is a text: a hash table of nodes, each
 * with a string of its own on the heap, and in the end an order of all groups.
 */
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload.h"

struct totals {
	uint64_t sales = 0;
	uint64_t money = 0;
	uint64_t largest = 0;
};

using groups = std::unordered_map<std::string, totals>;

/* Names do not come in the order of numbers. */
static std::string name_of(uint64_t number)
{
	char name[64];

	snprintf(name, sizeof(name), "customer-%08" PRIx64 "-%" PRIu64,
		 number * UINT64_C(2654435761) & 0xffffffff, number);
	return name;
}

/* Of as much money, the first by name is before. */
static bool is_before(const groups::value_type *a, const groups::value_type *b)
{
	if (a->second.money != b->second.money)
		return a->second.money > b->second.money;
	return a->first < b->first;
}

static uint64_t run(uint64_t customers, uint64_t count, uint64_t seed)
{
	uint64_t state = workload_seed(seed), sum = 0;
	std::vector<const groups::value_type *> order;
	groups by_name;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t customer = workload_below(workload_random(&state), customers);
		uint64_t price = 1 + workload_below(workload_random(&state), 1000);
		totals &its = by_name[name_of(customer)];

		its.sales++;
		its.money += price;
		its.largest = std::max(its.largest, price);
	}
	order.reserve(by_name.size());
	for (const auto &group : by_name)
		order.push_back(&group);
	std::sort(order.begin(), order.end(), is_before);
	for (const auto *group : order) {
		sum = sum * 31 + group->second.money;
		sum = sum * 31 + group->second.sales * 1000 + group->second.largest;
		sum = sum * 31 + static_cast<unsigned char>(group->first.back());
	}
	return sum;
}

int main(int, char **argv)
{
	uint64_t customers = 400000, count = 2000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "sales" },
		{ "customers", &customers, 1, "who may buy" },
		{ "seed", &seed, 0, "of the sales" },
	};

	WORKLOAD_PARSE(argv, "Add up sales by customer.", options);
	workload_at_most_32_bits(customers);
	try {
		return workload_finish(run(customers, count, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a group: Cannot allocate memory\n", stderr);
		return 1;
	}
}
