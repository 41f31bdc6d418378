/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Index documents by their words, then look for those that have two words
 * both.  Words are the keys of a std::unordered_map, each with a vector of
 * numbers of documents that grows: many allocations of all sizes.
 */
#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload.h"

using index_map = std::unordered_map<std::string, std::vector<uint32_t>>;

/* Some words are frequent, most are rare. */
static std::string random_word(uint64_t &state, uint64_t words)
{
	uint64_t number = workload_below(workload_random(&state), words);
	std::string word;

	number = workload_below(workload_random(&state), number + 1);
	/* Distinct numbers are distinct words, the neighbours not alike. */
	for (uint64_t rest = number * 2654435761u + 1; rest; rest /= 26)
		word += static_cast<char>('a' + rest % 26);
	return word;
}

static uint64_t in_both(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b)
{
	uint64_t sum = 0;

	for (auto i = a.begin(), k = b.begin(); i != a.end() && k != b.end();) {
		if (*i == *k)
			sum += *i++ + 1;
		else if (*i < *k)
			++i;
		else
			++k;
	}
	return sum;
}

static uint64_t search(uint64_t documents, uint64_t length, uint64_t words,
		       uint64_t count, uint64_t seed)
{
	index_map index;
	uint64_t state = workload_seed(seed);
	uint64_t sum = 0;

	for (uint64_t document = 0; document < documents; document++)
		for (uint64_t i = 0; i < length; i++) {
			auto &list = index[random_word(state, words)];

			if (list.empty() || list.back() != document)
				list.push_back(static_cast<uint32_t>(document));
		}
	for (uint64_t i = 0; i < count; i++) {
		auto first = index.find(random_word(state, words));
		auto second = index.find(random_word(state, words));

		if (first != index.end() && second != index.end())
			sum += in_both(first->second, second->second);
	}
	return sum + index.size();
}

int main(int, char **argv)
{
	uint64_t documents = 40000, length = 100, words = 400000, count = 500000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "searches" },
		{ "documents", &documents, 1, "documents" },
		{ "length", &length, 1, "words of each document" },
		{ "seed", &seed, 0, "of the documents" },
		{ "words", &words, 1, "words that there are" },
	};

	WORKLOAD_PARSE(argv, "Index documents by their words.", options);
	workload_at_most_32_bits(documents);
	workload_at_most_32_bits(words);
	try {
		return workload_finish(search(documents, length, words, count, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate the index: Cannot allocate memory\n", stderr);
		return 1;
	}
}
