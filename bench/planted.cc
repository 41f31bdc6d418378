// SPDX-License-Identifier: GPL-2.0-or-later
// C++ with planted sites: an index that is read all the time, and sparse buffers that are read rarely.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>
struct Index { std::vector<uint32_t> slots; explicit Index(size_t n): slots(n) {} };
static __attribute__((noinline)) std::unique_ptr<Index> make_index(size_t n) { return std::make_unique<Index>(n); }
static __attribute__((noinline)) char *make_buffer(size_t n) { return new char[n]; }
int main() {
  auto index = make_index(48u << 20);  // 192 MiB, dense
  for (size_t i = 0; i < index->slots.size(); i++) index->slots[i] = (uint32_t)(i * 2654435761u);
  std::vector<char *> buffers;
  for (int i = 0; i < 96; i++) { char *b = make_buffer(4u << 20); for (size_t k = 0; k < (4u << 20); k += 65536) b[k] = 1; buffers.push_back(b); }
  uint64_t x = 1, sum = 0;
  for (int i = 0; i < 30000000; i++) {
    x = x * 6364136223846793005ull + 1442695040888963407ull + index->slots[(x >> 30) % index->slots.size()];
    if (i % 16 == 0) sum += buffers[(x >> 20) % 96][((x >> 40) % 64) * 65536];
  }
  std::printf("%llu\n", (unsigned long long)(x + sum));
}
