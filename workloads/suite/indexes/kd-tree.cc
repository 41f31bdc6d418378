/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which points are nearest?  A k-d tree that lies in one array: its root is in
 * the middle, what is left of a plane in the half before.  Building it puts
 * the points in order, part by part; a search jumps about half of what is left.
 */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "workload.h"

constexpr unsigned dimensions = 3;
constexpr size_t leaf_points = 8;

struct point {
	int32_t at[dimensions];
	uint32_t number;
};

using points = std::vector<point>;

static uint64_t distance(const point &a, const point &b)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < dimensions; k++) {
		int64_t d = int64_t{a.at[k]} - b.at[k];

		sum += static_cast<uint64_t>(d * d);
	}
	return sum;
}

static point random_point(uint64_t &state, uint32_t number)
{
	point result{};

	for (auto &coordinate : result.at)
		coordinate = static_cast<int32_t>(workload_below(workload_random(&state), 1u << 20));
	result.number = number;
	return result;
}

static void build(points &all, size_t low, size_t high, unsigned axis)
{
	size_t middle = low + (high - low) / 2;

	if (high - low <= leaf_points)
		return;
	std::nth_element(all.begin() + static_cast<std::ptrdiff_t>(low),
			 all.begin() + static_cast<std::ptrdiff_t>(middle),
			 all.begin() + static_cast<std::ptrdiff_t>(high),
			 [axis](const point &a, const point &b) {
				 return a.at[axis] != b.at[axis] ? a.at[axis] < b.at[axis] :
								   a.number < b.number;
			 });
	build(all, low, middle, (axis + 1) % dimensions);
	build(all, middle + 1, high, (axis + 1) % dimensions);
}

/* The nearest points so far, the furthest of them first. */
class nearest {
public:
	nearest(const point &from, size_t wanted) : from(from), wanted(wanted)
	{
	}

	uint64_t furthest() const
	{
		return found.size() < wanted ? UINT64_MAX : found.front().first;
	}

	void look_at(const point &other)
	{
		uint64_t far = distance(from, other);

		if (far >= furthest())
			return;
		if (found.size() == wanted) {
			std::pop_heap(found.begin(), found.end());
			found.pop_back();
		}
		found.emplace_back(far, other.number);
		std::push_heap(found.begin(), found.end());
	}

	void search(const points &all, size_t low, size_t high, unsigned axis)
	{
		if (high - low <= leaf_points) {
			for (; low < high; low++)
				look_at(all[low]);
			return;
		}
		size_t middle = low + (high - low) / 2;
		int64_t beyond = int64_t{from.at[axis]} - all[middle].at[axis];
		unsigned next = (axis + 1) % dimensions;

		look_at(all[middle]);
		if (beyond < 0)
			search(all, low, middle, next);
		else
			search(all, middle + 1, high, next);
		if (static_cast<uint64_t>(beyond * beyond) > furthest())
			return;
		if (beyond < 0)
			search(all, middle + 1, high, next);
		else
			search(all, low, middle, next);
	}

	uint64_t sum() const
	{
		uint64_t result = 0;

		for (const auto &one : found)
			result += one.first;
		return result;
	}

private:
	point from;
	size_t wanted;
	std::vector<std::pair<uint64_t, uint32_t>> found;
};

int main(int, char **argv)
{
	uint64_t n = 2000000, count = 300000, wanted = 5, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "searches" },
		{ "points", &n, 1, "points" },
		{ "seed", &seed, 0, "of the points" },
		{ "wanted", &wanted, 1, "points that each search finds" },
	};

	WORKLOAD_PARSE(argv, "Find the nearest points in a k-d tree.", options);
	workload_at_most_32_bits(n);
	try {
		uint64_t state = workload_seed(seed);
		points all;

		for (uint64_t i = 0; i < n; i++)
			all.push_back(random_point(state, static_cast<uint32_t>(i)));
		build(all, 0, all.size(), 0);
		for (uint64_t i = 0; i < count; i++) {
			nearest found(random_point(state, 0), wanted);

			found.search(all, 0, all.size(), 0);
			sum = sum * 31 + found.sum();
		}
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate the points: Cannot allocate memory\n", stderr);
		return 1;
	}
	return workload_finish(sum);
}
