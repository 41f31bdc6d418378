/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which bookings overlap a time?  A balanced tree of bookings by their
 * beginnings, where each node knows the latest end below it.  Bookings come and
 * go all the time, so that nodes that are near in time lie anywhere.
 */
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "workload.h"

struct booking {
	uint64_t begin;		/* distinct: the lower bits are its number's */
	uint64_t end;
};

struct node;
using tree = std::unique_ptr<node>;

struct node {
	booking its;
	uint64_t latest;
	uint64_t weight;	/* random: no node is heavier than the one above it */
	tree left, right;

	node(booking b, uint64_t w) : its(b), latest(b.end), weight(w)
	{
	}

	void update()
	{
		latest = its.end;
		if (left)
			latest = std::max(latest, left->latest);
		if (right)
			latest = std::max(latest, right->latest);
	}
};

/* Those that begin before, and the others. */
static std::pair<tree, tree> split(tree root, uint64_t begin)
{
	if (!root)
		return {};
	if (root->its.begin < begin) {
		auto parts = split(std::move(root->right), begin);

		root->right = std::move(parts.first);
		root->update();
		return {std::move(root), std::move(parts.second)};
	}
	auto parts = split(std::move(root->left), begin);

	root->left = std::move(parts.second);
	root->update();
	return {std::move(parts.first), std::move(root)};
}

/* All of the first begin before those of the second. */
static tree join(tree first, tree second)
{
	if (!first)
		return second;
	if (!second)
		return first;
	if (first->weight > second->weight) {
		first->right = join(std::move(first->right), std::move(second));
		first->update();
		return first;
	}
	second->left = join(std::move(first), std::move(second->left));
	second->update();
	return second;
}

static void insert(tree &root, tree fresh)
{
	if (!root || root->weight < fresh->weight) {
		auto parts = split(std::move(root), fresh->its.begin);

		fresh->left = std::move(parts.first);
		fresh->right = std::move(parts.second);
		root = std::move(fresh);
	} else {
		tree &side = fresh->its.begin < root->its.begin ? root->left : root->right;

		insert(side, std::move(fresh));
	}
	root->update();
}

static void remove(tree &root, uint64_t begin)
{
	if (!root)
		return;
	if (root->its.begin == begin)
		root = join(std::move(root->left), std::move(root->right));
	else
		remove(begin < root->its.begin ? root->left : root->right, begin);
	if (root)
		root->update();
}

/* The sum of the lengths of those that are not over before, and begin before the end. */
static uint64_t overlapping(const node *at, uint64_t begin, uint64_t end)
{
	uint64_t sum = 0;

	while (at && at->latest > begin) {
		sum += overlapping(at->left.get(), begin, end);
		if (at->its.begin >= end)
			break;
		if (at->its.end > begin)
			sum += at->its.end - at->its.begin;
		at = at->right.get();
	}
	return sum;
}

class calendar {
public:
	calendar(uint64_t bookings, uint64_t most, uint64_t seed)
		: longest(most), state(workload_seed(seed)), current(bookings)
	{
		for (booking &one : current)
			one = book();
	}

	/* One of the bookings ends, another begins, and one asks for a time. */
	uint64_t serve()
	{
		booking &old = current[workload_below(workload_random(&state), current.size())];

		remove(root, old.begin);
		old = book();
		uint64_t begin = workload_random(&state) >> 24;

		return overlapping(root.get(), begin, begin + longest);
	}

private:
	booking book()
	{
		/* 2^40 moments, of which each begins 2^16 bookings at most. */
		uint64_t begin = (workload_random(&state) >> 40 << 16) + (number++ & 0xffff);
		booking fresh = {begin, begin + 1 + workload_below(workload_random(&state), longest)};

		insert(root, std::make_unique<node>(fresh, workload_random(&state)));
		return fresh;
	}

	uint64_t longest;
	uint64_t state;
	uint64_t number = 0;
	tree root;
	std::vector<booking> current;
};

int main(int, char **argv)
{
	uint64_t bookings = 300000, count = 450000, longest = 8 << 20, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "bookings", &bookings, 1, "at a time" },
		{ "count", &count, 0, "of them that end, and times asked for" },
		{ "longest", &longest, 1, "booking, of 1024G moments" },
		{ "seed", &seed, 0, "of the bookings" },
	};

	WORKLOAD_PARSE(argv, "Ask which bookings overlap.", options);
	workload_at_most_32_bits(bookings);
	workload_at_most_32_bits(longest);
	try {
		calendar calendar(bookings, longest, seed);

		for (uint64_t i = 0; i < count; i++)
			sum = sum * 31 + calendar.serve();
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a booking: Cannot allocate memory\n", stderr);
		return 1;
	}
	return workload_finish(sum);
}
