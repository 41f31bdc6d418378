/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keep texts by their keys in a log: each change is written to the end of the
 * last segment, and a hash table knows where the newest of each key is.  When
 * half of all bytes are of old records, what is still valid of the oldest
 * segments is written again, and they are freed.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload.h"

struct header {
	uint32_t key_bytes;
	uint32_t value_bytes;
};

struct place {
	uint64_t segment;	/* counted from the first one that there was */
	uint64_t offset;
};

class store {
public:
	explicit store(uint64_t most) : segment_bytes(most)
	{
		add_segment();
	}

	void put(const std::string &key, const std::string &value)
	{
		forget(key);
		index[key] = append(key, value.data(), value.size());
		valid += sizeof(header) + key.size() + value.size();
		while (written > 2 * valid && segments.size() > 2)
			write_oldest_again();
	}

	void erase(const std::string &key)
	{
		forget(key);
		index.erase(key);
	}

	/* Of what is kept by a key; 0 if there is none. */
	uint64_t sum_of(const std::string &key) const
	{
		auto found = index.find(key);
		uint64_t sum = 0;
		header size;

		if (found == index.end())
			return 0;
		const char *record = at(found->second);
		memcpy(&size, record, sizeof(size));
		record += sizeof(size) + size.key_bytes;
		for (uint32_t i = 0; i < size.value_bytes; i++)
			sum = sum * 31 + static_cast<unsigned char>(record[i]);
		return sum;
	}

	uint64_t keys() const
	{
		return index.size();
	}

private:
	const char *at(const place &where) const
	{
		return segments[where.segment - gone].data() + where.offset;
	}

	void add_segment()
	{
		segments.emplace_back();
		segments.back().reserve(segment_bytes);
	}

	/* The record of a key is old from now on. */
	void forget(const std::string &key)
	{
		auto found = index.find(key);
		header size;

		if (found == index.end())
			return;
		memcpy(&size, at(found->second), sizeof(size));
		valid -= sizeof(size) + size.key_bytes + size.value_bytes;
	}

	place append(const std::string &key, const char *value, uint64_t value_bytes)
	{
		header size = {static_cast<uint32_t>(key.size()),
			       static_cast<uint32_t>(value_bytes)};
		uint64_t bytes = sizeof(size) + key.size() + value_bytes;

		if (segments.back().size() + bytes > segment_bytes)
			add_segment();
		std::vector<char> &last = segments.back();
		place where = {gone + segments.size() - 1, last.size()};
		const char *first = reinterpret_cast<const char *>(&size);

		last.insert(last.end(), first, first + sizeof(size));
		last.insert(last.end(), key.begin(), key.end());
		last.insert(last.end(), value, value + value_bytes);
		written += bytes;
		return where;
	}

	void write_oldest_again()
	{
		std::vector<char> oldest = std::move(segments.front());
		uint64_t number = gone++;

		segments.pop_front();
		for (uint64_t offset = 0; offset < oldest.size();) {
			const char *record = oldest.data() + offset;
			header size;

			memcpy(&size, record, sizeof(size));
			std::string key(record + sizeof(size), size.key_bytes);
			auto found = index.find(key);

			if (found != index.end() && found->second.segment == number &&
			    found->second.offset == offset)
				found->second = append(key, record + sizeof(size) + size.key_bytes,
						       size.value_bytes);
			offset += sizeof(size) + size.key_bytes + size.value_bytes;
		}
		written -= oldest.size();
	}

	uint64_t segment_bytes;
	uint64_t gone = 0;	/* segments that were freed */
	uint64_t written = 0;	/* bytes of all segments */
	uint64_t valid = 0;	/* of them, those of newest records */
	std::deque<std::vector<char>> segments;
	std::unordered_map<std::string, place> index;
};

static uint64_t run(uint64_t keys, uint64_t count, uint64_t segment, uint64_t seed)
{
	uint64_t state = workload_seed(seed), sum = 0;
	store texts(segment);
	std::string value;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t random = workload_random(&state);
		uint64_t most = 1 + workload_below(random, keys);
		/* Some keys are more frequent than others. */
		uint64_t number = workload_below(random << 32, most);
		std::string key = "user/" + std::to_string(number * 7919 % 1000003) + "/" +
				  std::to_string(number);
		uint64_t what = workload_random(&state);

		if ((what & 15) == 0) {
			texts.erase(key);
		} else if (what & 1) {
			value.assign(20 + (what >> 4 & 255), static_cast<char>('a' + what % 26));
			texts.put(key, value);
		} else {
			sum = sum * 31 + texts.sum_of(key);
		}
	}
	return sum * 31 + texts.keys();
}

int main(int, char **argv)
{
	uint64_t keys = 800000, count = 1500000, segment = 4 << 20, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "changes and questions" },
		{ "keys", &keys, 1, "that there may be" },
		{ "seed", &seed, 0, "of the changes" },
		{ "segment", &segment, 1024, "of the log in bytes" },
	};

	WORKLOAD_PARSE(argv, "Keep texts by their keys in a log.", options);
	workload_at_most_32_bits(keys);
	try {
		return workload_finish(run(keys, count, segment, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a record: Cannot allocate memory\n", stderr);
		return 1;
	}
}
