/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Look up random keys of a std::map.  Each of its nodes is an allocation of
 * its own, so that the heap grows by brk() in small steps: memory that
 * transparent huge pages miss.
 */
#include <cstdint>
#include <map>
#include <new>

#include "workload.h"

static uint64_t look_up(uint64_t keys, uint64_t count, uint64_t seed)
{
	std::map<uint64_t, uint64_t> map;
	uint64_t state = workload_seed(seed);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < keys; i++)
		map[workload_random(&state)] = i;
	for (uint64_t i = 0; i < count; i++) {
		auto found = map.lower_bound(workload_random(&state));

		sum += found == map.end() ? 0 : found->second;
	}
	return sum;
}

int main(int, char **argv)
{
	uint64_t keys = 1000000, count = 1000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "lookups" },
		{ "keys", &keys, 1, "keys of the map" },
		{ "seed", &seed, 0, "of the random keys" },
	};

	WORKLOAD_PARSE(argv, "Look up keys of a std::map.", options);
	try {
		return workload_finish(look_up(keys, count, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a node: Cannot allocate memory\n", stderr);
		return 1;
	}
}
