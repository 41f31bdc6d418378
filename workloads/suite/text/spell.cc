/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which words of a dictionary are like a misspelt one?  The dictionary is a
 * tree of letters; a search goes down each branch with a row of edit distances
 * as long as one of them is small enough: few steps in order, most from node to
 * node and to the nodes' lists.
 */
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "workload.h"

constexpr uint64_t letters = 26;

struct node {
	std::vector<std::pair<char, std::unique_ptr<node>>> next;
	uint64_t word = 0;	/* the number of the one that ends here, from 1 */
};

class dictionary {
public:
	void add(const std::string &word, uint64_t number)
	{
		node *at = &root;

		for (char letter : word) {
			auto found = std::find_if(at->next.begin(), at->next.end(),
						  [letter](const auto &pair) {
							  return pair.first == letter;
						  });

			if (found == at->next.end()) {
				at->next.emplace_back(letter, std::make_unique<node>());
				found = std::prev(at->next.end());
			}
			at = found->second.get();
		}
		if (!at->word)
			at->word = number;
	}

	/* The sum of the numbers of words that are so near, each with its distance. */
	uint64_t near(const std::string &word, unsigned errors) const
	{
		std::vector<unsigned> row(word.size() + 1);

		for (unsigned i = 0; i < row.size(); i++)
			row[i] = i;
		return search(root, word, row, errors);
	}

private:
	static uint64_t search(const node &at, const std::string &word,
			       const std::vector<unsigned> &row, unsigned errors)
	{
		uint64_t sum = 0;

		if (at.word && row.back() <= errors)
			sum += at.word * (row.back() + 1);
		for (const auto &pair : at.next) {
			std::vector<unsigned> below(row.size());
			unsigned least = below[0] = row[0] + 1;

			for (size_t i = 1; i < row.size(); i++) {
				below[i] = std::min({row[i] + 1, below[i - 1] + 1,
						     row[i - 1] + (word[i - 1] != pair.first)});
				least = std::min(least, below[i]);
			}
			if (least <= errors)
				sum += search(*pair.second, word, below, errors);
		}
		return sum;
	}

	node root;
};

static char random_letter(uint64_t &state)
{
	/* Some are more frequent. */
	uint64_t most = workload_below(workload_random(&state), letters);

	return static_cast<char>('a' + workload_below(workload_random(&state), most + 1));
}

/* Another letter for one of them, none, or one more. */
static void misspell(std::string &word, uint64_t &state)
{
	uint64_t place = workload_below(workload_random(&state), word.size());

	switch (workload_below(workload_random(&state), 3)) {
	case 0:
		word[place] = random_letter(state);
		break;
	case 1:
		word.erase(place, 1);
		break;
	default:
		word.insert(place, 1, random_letter(state));
	}
}

static uint64_t run(uint64_t words, uint64_t count, unsigned errors, uint64_t seed)
{
	uint64_t state = workload_seed(seed), sum = 0;
	std::vector<std::string> all(words);
	dictionary dictionary;

	for (uint64_t i = 0; i < words; i++) {
		for (uint64_t k = 3 + workload_below(workload_random(&state), 10); k; k--)
			all[i] += random_letter(state);
		dictionary.add(all[i], i + 1);
	}
	for (uint64_t i = 0; i < count; i++) {
		std::string word = all[workload_below(workload_random(&state), words)];

		misspell(word, state);
		misspell(word, state);
		sum = sum * 31 + dictionary.near(word, errors);
	}
	return sum;
}

int main(int, char **argv)
{
	uint64_t words = 150000, count = 700, errors = 2, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "misspelt words" },
		{ "errors", &errors, 0, "that a word may have" },
		{ "seed", &seed, 0, "of the words" },
		{ "words", &words, 1, "of the dictionary" },
	};

	WORKLOAD_PARSE(argv, "Look for words like misspelt ones.", options);
	workload_at_most_32_bits(words);
	workload_at_most_32_bits(errors);
	try {
		return workload_finish(run(words, count, static_cast<unsigned>(errors), seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a word: Cannot allocate memory\n", stderr);
		return 1;
	}
}
