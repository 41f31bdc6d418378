/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Match orders at an exchange: the prices at which shares are offered or
 * wanted are the keys of a std::map (a red-black tree), each with a std::list
 * of orders, and a std::unordered_map finds an order that is cancelled.  Nodes
 * come and go all the time, so that neighbours in a list lie anywhere.
 */
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <new>
#include <unordered_map>

#include "workload.h"

struct order {
	uint64_t id;
	uint32_t price;
	uint32_t shares;
	bool buys;
};

using orders = std::list<order>;
using side = std::map<uint32_t, orders>;

class exchange {
public:
	/* Trade what can be traded, and keep the rest; the sum of what was paid. */
	uint64_t take(order incoming)
	{
		side &others = incoming.buys ? sellers : buyers;
		uint64_t paid = 0;

		while (incoming.shares > 0 && !others.empty()) {
			auto best = incoming.buys ? others.begin() : std::prev(others.end());

			if (incoming.buys ? best->first > incoming.price :
					    best->first < incoming.price)
				break;
			paid += trade(incoming, best->second);
			if (best->second.empty())
				others.erase(best);
		}
		if (incoming.shares > 0) {
			orders &level = (incoming.buys ? buyers : sellers)[incoming.price];

			place[incoming.id] = level.insert(level.end(), incoming);
		}
		return paid;
	}

	/* The shares that are no longer offered or wanted. */
	uint64_t cancel(uint64_t id)
	{
		auto found = place.find(id);

		if (found == place.end())
			return 0;
		order old = *found->second;
		side &its = old.buys ? buyers : sellers;
		auto level = its.find(old.price);

		level->second.erase(found->second);
		if (level->second.empty())
			its.erase(level);
		place.erase(found);
		return old.shares;
	}

	uint64_t open_orders() const
	{
		return place.size();
	}

private:
	/* With the oldest order of one price. */
	uint64_t trade(order &incoming, orders &level)
	{
		order &oldest = level.front();
		uint32_t shares = incoming.shares < oldest.shares ? incoming.shares : oldest.shares;
		uint64_t paid = uint64_t{shares} * oldest.price;

		incoming.shares -= shares;
		oldest.shares -= shares;
		if (oldest.shares == 0) {
			place.erase(oldest.id);
			level.pop_front();
		}
		return paid;
	}

	side buyers, sellers;
	std::unordered_map<uint64_t, orders::iterator> place;
};

static uint64_t open_market(uint64_t count, uint64_t depth, uint64_t prices, uint64_t seed)
{
	exchange exchange;
	uint64_t state = workload_seed(seed);
	uint64_t sum = 0;

	for (uint64_t id = 0; id < count; id++) {
		uint64_t random = workload_random(&state);
		bool buys = random & 1;
		uint64_t below = workload_below(workload_random(&state), prices);
		/* Few are ready to pay what others ask. */
		uint64_t price = buys ? below : prices + below - below / 64 - prices / 64;
		auto shares = static_cast<uint32_t>(1 + workload_below(random, 500));

		sum = sum * 31 + exchange.take({id, static_cast<uint32_t>(price), shares, buys});
		if (id >= depth)
			sum += exchange.cancel(id - workload_below(workload_random(&state), depth));
	}
	return sum + exchange.open_orders();
}

int main(int, char **argv)
{
	uint64_t count = 1000000, depth = 600000, prices = 100000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "orders" },
		{ "depth", &depth, 1, "latest orders of which one is cancelled each time" },
		{ "prices", &prices, 1, "prices of each side" },
		{ "seed", &seed, 0, "of the orders" },
	};

	WORKLOAD_PARSE(argv, "Match orders at an exchange.", options);
	workload_at_most_32_bits(2 * prices);
	workload_at_most_32_bits(depth);
	try {
		return workload_finish(open_market(count, depth, prices, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate an order: Cannot allocate memory\n", stderr);
		return 1;
	}
}
