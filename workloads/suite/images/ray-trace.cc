// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What does a camera see?  A ray through each pixel looks for the nearest of
 * many triangles in a tree of boxes, and is sent on from there as off a mirror.
 * Rays of neighbours go nearly the same way through the tree at first, and
 * later apart.
 */
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <vector>

#include "workload.h"

constexpr size_t leaf_triangles = 4;
constexpr double nothing = std::numeric_limits<double>::infinity();

struct vec {
	double at[3];
};

static vec operator+(const vec &a, const vec &b)
{
	return { { a.at[0] + b.at[0], a.at[1] + b.at[1], a.at[2] + b.at[2] } };
}

static vec operator-(const vec &a, const vec &b)
{
	return { { a.at[0] - b.at[0], a.at[1] - b.at[1], a.at[2] - b.at[2] } };
}

static vec operator*(double a, const vec &b)
{
	return { { a * b.at[0], a * b.at[1], a * b.at[2] } };
}

static double dot(const vec &a, const vec &b)
{
	return a.at[0] * b.at[0] + a.at[1] * b.at[1] + a.at[2] * b.at[2];
}

static vec cross(const vec &a, const vec &b)
{
	return { { a.at[1] * b.at[2] - a.at[2] * b.at[1], a.at[2] * b.at[0] - a.at[0] * b.at[2],
		   a.at[0] * b.at[1] - a.at[1] * b.at[0] } };
}

struct triangle {
	vec corner;
	vec side[2];
	uint64_t number;

	/* Six times that of its middle. */
	double middle(unsigned axis) const
	{
		return 3 * corner.at[axis] + side[0].at[axis] + side[1].at[axis];
	}
};

struct ray {
	vec from;
	vec way;
};

/* How far along the ray the triangle is (Cramer's rule). */
static double hit(const ray &r, const triangle &t)
{
	vec normal = cross(r.way, t.side[1]), away = r.from - t.corner, other;
	double volume = dot(t.side[0], normal), u, v, far;

	if (volume == 0)
		return nothing;
	u = dot(away, normal) / volume;
	if (u < 0 || u > 1)
		return nothing;
	other = cross(away, t.side[0]);
	v = dot(r.way, other) / volume;
	if (v < 0 || u + v > 1)
		return nothing;
	far = dot(t.side[1], other) / volume;
	return far > 1e-9 ? far : nothing;
}

struct box {
	vec low{ { nothing, nothing, nothing } };
	vec high{ { -nothing, -nothing, -nothing } };

	void include(const vec &point)
	{
		for (unsigned i = 0; i < 3; i++) {
			low.at[i] = std::min(low.at[i], point.at[i]);
			high.at[i] = std::max(high.at[i], point.at[i]);
		}
	}

	/* Where the ray enters, if that is nearer than this. */
	double enter(const ray &r, const vec &inverse, double nearer) const
	{
		double first = 0;

		for (unsigned i = 0; i < 3; i++) {
			double a = (low.at[i] - r.from.at[i]) * inverse.at[i];
			double b = (high.at[i] - r.from.at[i]) * inverse.at[i];

			first = std::max(first, std::min(a, b));
			nearer = std::min(nearer, std::max(a, b));
		}
		return first <= nearer ? first : nothing;
	}
};

/* The half before its middle triangle comes right behind a box. */
struct node {
	box bounds;
	uint32_t begin, end;	/* triangles */
	uint32_t second;	/* the other half's node; 0: a leaf */
};

class scene {
public:
	scene(uint64_t n, uint64_t seed)
	{
		uint64_t state = workload_seed(seed);
		double size = 1 / std::cbrt(static_cast<double>(n));

		triangles.reserve(n);
		for (uint64_t i = 0; i < n; i++) {
			vec corner = random_point(state, 1), a = random_point(state, size);

			triangles.push_back({ corner, { a, random_point(state, size) }, i });
		}
		build(0, static_cast<uint32_t>(n));
	}

	/* The nearest triangle, or NULL. */
	const triangle *nearest(const ray &r, double &far) const
	{
		vec inverse{ { 1 / r.way.at[0], 1 / r.way.at[1], 1 / r.way.at[2] } };
		const triangle *found = nullptr;

		far = nothing;
		look(0, r, inverse, far, found);
		return found;
	}

private:
	std::vector<triangle> triangles;
	std::vector<node> nodes;

	/* In a cube around 0. */
	static vec random_point(uint64_t &state, double size)
	{
		vec result;

		for (auto &coordinate : result.at)
			coordinate = (static_cast<double>(workload_random(&state) >> 40) / (1 << 23) - 1) *
				     size;
		return result;
	}

	uint32_t build(uint32_t begin, uint32_t end)
	{
		auto index = static_cast<uint32_t>(nodes.size());
		box bounds, middles;

		for (uint32_t i = begin; i < end; i++) {
			const triangle &t = triangles[i];

			bounds.include(t.corner);
			bounds.include(t.corner + t.side[0]);
			bounds.include(t.corner + t.side[1]);
			middles.include({ { t.middle(0), t.middle(1), t.middle(2) } });
		}
		nodes.push_back({ bounds, begin, end, 0 });
		if (end - begin <= leaf_triangles)
			return index;
		vec extent = middles.high - middles.low;
		auto axis = static_cast<unsigned>(std::max_element(extent.at, extent.at + 3) - extent.at);
		uint32_t half = begin + (end - begin) / 2;

		std::nth_element(triangles.begin() + begin, triangles.begin() + half,
				 triangles.begin() + end, [axis](const triangle &a, const triangle &b) {
					 return a.middle(axis) < b.middle(axis);
				 });
		build(begin, half);
		nodes[index].second = build(half, end);
		return index;
	}

	void look(uint32_t index, const ray &r, const vec &inverse, double &far,
		  const triangle *&found) const
	{
		const node &here = nodes[index];

		if (here.second == 0) {
			for (uint32_t i = here.begin; i < here.end; i++) {
				double there = hit(r, triangles[i]);

				if (there < far) {
					far = there;
					found = &triangles[i];
				}
			}
			return;
		}
		uint32_t next[2] = { index + 1, here.second };
		double enters[2] = { nodes[next[0]].bounds.enter(r, inverse, far),
				     nodes[next[1]].bounds.enter(r, inverse, far) };
		unsigned nearer = enters[1] < enters[0];

		if (enters[nearer] < far)
			look(next[nearer], r, inverse, far, found);
		if (enters[1 - nearer] < far)
			look(next[1 - nearer], r, inverse, far, found);
	}
};

/* The number of each triangle that it meets. */
static uint64_t follow(const scene &all, ray r, uint64_t mirrors)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i <= mirrors; i++) {
		double far;
		const triangle *t = all.nearest(r, far);

		if (!t)
			break;
		vec normal = cross(t->side[0], t->side[1]);

		sum = sum * 31 + t->number + 1;
		r.from = r.from + far * r.way;
		r.way = r.way - 2 * dot(r.way, normal) / dot(normal, normal) * normal;
	}
	return sum;
}

int main(int, char **argv)
{
	uint64_t n = 700000, order = 240, mirrors = 2, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "mirrors", &mirrors, 0, "times that a ray is sent on" },
		{ "order", &order, 1, "pixels along each edge" },
		{ "seed", &seed, 0, "of the triangles" },
		{ "triangles", &n, 1, "that there are" },
	};

	WORKLOAD_PARSE(argv, "Trace rays among triangles.", options);
	if (n > UINT32_MAX) {
		fputs("--triangles is too large\n", stderr);
		return 2;
	}
	try {
		scene all(n, seed);

		for (uint64_t y = 0; y < order; y++)
			for (uint64_t x = 0; x < order; x++) {
				double right = (static_cast<double>(x) + 0.5) / static_cast<double>(order) - 0.5;
				double down = (static_cast<double>(y) + 0.5) / static_cast<double>(order) - 0.5;

				sum = sum * 31 + follow(all, { { { 0, 0, -2 } }, { { right, down, 1 } } }, mirrors);
			}
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate the triangles: Cannot allocate memory\n", stderr);
		return 1;
	}
	return workload_finish(sum);
}
