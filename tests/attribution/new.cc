// SPDX-License-Identifier: GPL-2.0-or-later
// Two arrays of new[] and a vector, one of which is used at random.
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr unsigned bytes = 16u << 20;

__attribute__((noinline)) static std::uint8_t *make_quiet()
{
	auto *made = new std::uint8_t[bytes](); // the quiet array

	return made;
}

__attribute__((noinline)) static std::uint8_t *make_random()
{
	auto *made = new std::uint8_t[bytes](); // the random array

	return made;
}

__attribute__((noinline)) static std::vector<std::uint8_t> make_vector()
{
	std::vector<std::uint8_t> made(bytes, 1); // the vector

	return made;
}

int main(int argc, char **)
{
	std::uint8_t *quiet = make_quiet(), *random = make_random();
	std::vector<std::uint8_t> vector = make_vector();
	const std::uint8_t *busy = argc > 1 ? vector.data() : random;
	std::uint64_t x = 88172645463325252u, sum = 0;

	for (unsigned i = 0; i < bytes; i += 64)
		sum += quiet[i] + vector[i];
	for (unsigned i = 0; i < 400000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += busy[x % bytes];
	}
	std::printf("%llu\n", static_cast<unsigned long long>(sum));
	delete[] quiet;
	delete[] random;
}
