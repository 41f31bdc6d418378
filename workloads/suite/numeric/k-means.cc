// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which pictures are alike?  Lloyd's k-means on descriptors of 128 bytes each:
 * every round reads all of them in order and compares each with some centres
 * that stay in the caches, so that most of the time goes into computing.
 */
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <vector>

#include "workload.h"

constexpr size_t dimensions = 128;

using descriptor = std::array<uint8_t, dimensions>;

static uint32_t distance(const descriptor &a, const descriptor &b)
{
	int sum = 0;

	for (size_t i = 0; i < dimensions; i++) {
		int d = a[i] - b[i];

		sum += d * d;
	}
	return static_cast<uint32_t>(sum);
}

struct cluster {
	descriptor centre;
	uint64_t members;
	std::array<uint64_t, dimensions> sums;
};

/* A random kind of picture each, and 16 grades of noise around it. */
static std::vector<descriptor> make_points(uint64_t n, uint64_t kinds, uint64_t seed)
{
	uint64_t state = workload_seed(seed);
	std::vector<descriptor> models(kinds), points(n);

	for (auto &model : models)
		for (auto &byte : model)
			byte = static_cast<uint8_t>(workload_below(workload_random(&state), 240));
	for (auto &point : points) {
		const auto &model = models[workload_below(workload_random(&state), kinds)];

		for (size_t i = 0; i < dimensions; i += 16) {
			uint64_t noise = workload_random(&state);

			for (size_t k = 0; k < 16; k++)
				point[i + k] = static_cast<uint8_t>(model[i + k] + (noise >> 4 * k & 15));
		}
	}
	return points;
}

/* Give each point to the nearest centre; the sum of their distances. */
static uint64_t assign(const std::vector<descriptor> &points, std::vector<cluster> &clusters)
{
	uint64_t sum = 0;

	for (const auto &point : points) {
		cluster *nearest = nullptr;
		uint32_t least = UINT32_MAX;

		for (auto &one : clusters) {
			uint32_t far = distance(point, one.centre);

			if (far < least) {
				least = far;
				nearest = &one;
			}
		}
		sum += least;
		nearest->members++;
		for (size_t i = 0; i < dimensions; i++)
			nearest->sums[i] += point[i];
	}
	return sum;
}

static void move(cluster &one)
{
	for (size_t i = 0; i < dimensions && one.members > 0; i++)
		one.centre[i] = static_cast<uint8_t>(one.sums[i] / one.members);
	one.members = 0;
	one.sums.fill(0);
}

int main(int, char **argv)
{
	uint64_t n = 1000000, k = 16, rounds = 5, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "clusters", &k, 1, "centres" },
		{ "points", &n, 1, "descriptors" },
		{ "rounds", &rounds, 1, "times that the centres move" },
		{ "seed", &seed, 0, "of the descriptors" },
	};

	WORKLOAD_PARSE(argv, "Find clusters of descriptors.", options);
	workload_at_most_32_bits(k);
	if (k > n) {
		fputs("--clusters must be at most --points\n", stderr);
		return 2;
	}
	try {
		auto points = make_points(n, k, seed);
		std::vector<cluster> clusters(k);

		/* The first descriptors will do as centres. */
		for (uint64_t i = 0; i < k; i++)
			clusters[i].centre = points[i];
		for (; rounds > 0; rounds--) {
			sum = sum * 31 + assign(points, clusters);
			for (auto &one : clusters)
				move(one);
		}
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate the points: Cannot allocate memory\n", stderr);
		return 1;
	}
	return workload_finish(sum);
}
