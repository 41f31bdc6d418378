/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read a document like JSON into a tree of values, then ask for some of them
 * by name.  The text is read in order, and each value, name and list is an
 * allocation; questions go from node to node.
 */
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "workload.h"

struct value {
	uint64_t number = 0;
	std::string text;
	std::vector<std::unique_ptr<value>> list;
	std::map<std::string, std::unique_ptr<value>> members;
};

static std::string number_text(uint64_t number)
{
	return std::to_string(number);
}

static std::string random_text(uint64_t &state, uint64_t most)
{
	std::string text;

	for (uint64_t letters = 1 + workload_below(workload_random(&state), most); letters; letters--)
		text += static_cast<char>('a' + workload_below(workload_random(&state), 26));
	return text;
}

/* Customers, each with a name and some orders of some things. */
static std::string make_document(uint64_t customers, uint64_t seed)
{
	uint64_t state = workload_seed(seed);
	std::string text = "{";

	for (uint64_t i = 0; i < customers; i++) {
		text += (i ? ",\"customer-" : "\"customer-") + number_text(i) + "\":{\"name\":\"" +
			random_text(state, 40) + "\",\"since\":" +
			number_text(1990 + workload_below(workload_random(&state), 36)) + ",\"orders\":[";
		for (uint64_t k = workload_below(workload_random(&state), 8); k; k--)
			text += "{\"thing\":\"" + random_text(state, 30) + "\",\"price\":" +
				number_text(workload_below(workload_random(&state), 100000)) +
				(k > 1 ? "}," : "}");
		text += "]}";
	}
	return text + "}";
}

/* What make_document() writes is all that it needs to read. */
class parser {
public:
	explicit parser(const std::string &document) : at(document.c_str())
	{
	}

	std::unique_ptr<value> read()
	{
		auto result = std::make_unique<value>();

		if (*at == '{')
			read_members(*result);
		else if (*at == '[')
			read_list(*result);
		else if (*at == '"')
			result->text = read_text();
		else
			while (*at >= '0' && *at <= '9')
				result->number = result->number * 10 + static_cast<uint64_t>(*at++ - '0');
		return result;
	}

private:
	std::string read_text()
	{
		const char *start = ++at;

		while (*at != '"')
			at++;
		return std::string(start, at++);
	}

	void read_members(value &result)
	{
		for (at++; *at != '}'; at += *at == ',') {
			std::string name = read_text();

			at++;
			result.members.emplace(std::move(name), read());
		}
		at++;
	}

	void read_list(value &result)
	{
		for (at++; *at != ']'; at += *at == ',')
			result.list.push_back(read());
		at++;
	}

	const char *at;
};

static uint64_t ask(const value &document, const std::string &customer)
{
	auto found = document.members.find(customer);
	uint64_t sum = 0;

	if (found == document.members.end())
		return 0;
	const value &it = *found->second;

	for (const auto &order : it.members.at("orders")->list)
		sum += order->members.at("price")->number + order->members.at("thing")->text.size();
	return sum + it.members.at("since")->number + it.members.at("name")->text.size();
}

static uint64_t run(uint64_t customers, uint64_t count, uint64_t seed)
{
	std::string text = make_document(customers, seed);
	std::unique_ptr<value> document = parser(text).read();
	uint64_t state = workload_seed(seed + 1), sum = text.size();

	for (uint64_t i = 0; i < count; i++)
		sum = sum * 31 + ask(*document, "customer-" + number_text(workload_below(
						workload_random(&state), customers)));
	return sum;
}

int main(int, char **argv)
{
	uint64_t customers = 100000, count = 400000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "questions" },
		{ "customers", &customers, 1, "customers in the document" },
		{ "seed", &seed, 0, "of the document" },
	};

	WORKLOAD_PARSE(argv, "Read a document into a tree, and look things up.", options);
	workload_at_most_32_bits(customers);
	try {
		return workload_finish(run(customers, count, seed));
	} catch (const std::bad_alloc &) {
		fputs("cannot allocate a value: Cannot allocate memory\n", stderr);
		return 1;
	}
}
