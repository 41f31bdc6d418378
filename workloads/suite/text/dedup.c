/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a backup is new?  A rolling hash cuts it into chunks where its bytes
 * say so, and the SHA-256 of each chunk is looked up among those seen before.
 * All bytes are read twice, in order; nearly all of the time goes into the sums.
 */
#include "workload.h"

#define DIGEST_WORDS 8u
#define BLOCK_BYTES 64u
#define LEAST_CHUNK 2048u
#define MOST_CHUNK 65536u
#define CUT_BITS 13u

/* FIPS 180-4: from the cube roots and the square roots of the first primes. */
static const uint32_t sha_rounds[BLOCK_BYTES] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t sha_start[DIGEST_WORDS] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
	0x1f83d9ab, 0x5be0cd19,
};

static uint32_t turned(uint32_t x, unsigned bits)
{
	return x >> bits | x << (32 - bits);
}

static void sha_block(uint32_t *digest, const unsigned char *bytes)
{
	uint32_t w[BLOCK_BYTES], s[DIGEST_WORDS];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
		       (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
	for (unsigned i = 16; i < BLOCK_BYTES; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) +
		       (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
	}
	memcpy(s, digest, sizeof(s));
	for (unsigned i = 0; i < BLOCK_BYTES; i++) {
		uint32_t first, second;

		first = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) +
			((s[4] & s[5]) ^ (~s[4] & s[6])) + sha_rounds[i] + w[i];
		second = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) +
			 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += first;
		s[0] = first + second;
	}
	for (unsigned i = 0; i < DIGEST_WORDS; i++)
		digest[i] += s[i];
}

/* The first 64 bits of the SHA-256. */
static uint64_t sha_256(const unsigned char *bytes, uint64_t n)
{
	unsigned char end[2 * BLOCK_BYTES] = { 0 };
	uint64_t whole = n / BLOCK_BYTES * BLOCK_BYTES, rest = n - whole;
	uint64_t padded = rest < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;
	uint32_t digest[DIGEST_WORDS];

	memcpy(digest, sha_start, sizeof(digest));
	for (uint64_t i = 0; i < whole; i += BLOCK_BYTES)
		sha_block(digest, bytes + i);
	memcpy(end, bytes + whole, rest);
	end[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		end[padded - 1 - i] = (unsigned char)(8 * n >> 8 * i);
	for (uint64_t i = 0; i < padded; i += BLOCK_BYTES)
		sha_block(digest, end + i);
	return (uint64_t)digest[0] << 32 | digest[1];
}

/* Half of it, in pieces of up to 1 MiB, was there before. */
static void make_backup(unsigned char *bytes, uint64_t n, uint64_t *state)
{
	uint64_t done = 0;

	while (done < n) {
		uint64_t random = workload_random(state);
		uint64_t length = 1 + workload_below(random, 1u << 20);
		uint64_t from = done > 0 ? workload_random(state) % done : 0;

		length = length < n - done ? length : n - done;
		if ((random & 1) && length <= done - from) {
			memcpy(bytes + done, bytes + from, length);
		} else {
			for (uint64_t i = 0; i < length; i++)
				bytes[done + i] = (unsigned char)(workload_random(state) >> 56);
		}
		done += length;
	}
}

/* The hash depends on the last 64 bytes: what is older has been shifted out. */
static uint64_t chunk_length(const unsigned char *bytes, uint64_t n, const uint64_t *gears)
{
	uint64_t most = n < MOST_CHUNK ? n : MOST_CHUNK, hash = 0;

	for (uint64_t i = 0; i < most; i++) {
		hash = (hash << 1) + gears[bytes[i]];
		if (i + 1 >= LEAST_CHUNK && hash >> (64 - CUT_BITS) == 0)
			return i + 1;
	}
	return most;
}

/* 0 stands for none. Returns whether it is new. */
static int remember(uint64_t *index, uint64_t slots, uint64_t sum)
{
	uint64_t slot = workload_below(sum, slots);

	while (index[slot] && index[slot] != sum)
		slot = slot + 1 < slots ? slot + 1 : 0;
	if (index[slot])
		return 0;
	index[slot] = sum;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t size = 128 << 20, seed = 1, sum = 0, fresh = 0, slots, state, length;
	const struct workload_option options[] = {
		{ "seed", &seed, 0, "of the backup" },
		{ "size", &size, 1, "bytes of the backup" },
	};
	uint64_t gears[256], *index;
	unsigned char *bytes;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find what is new in a backup.", options);
	slots = 2 * (size / LEAST_CHUNK + 1);
	workload_at_most_32_bits(slots);
	bytes = workload_memory(size);
	index = workload_memory(slots * sizeof(*index));
	memset(index, 0, slots * sizeof(*index));
	state = workload_seed(seed);
	for (unsigned i = 0; i < 256; i++)
		gears[i] = workload_random(&state);
	make_backup(bytes, size, &state);
	for (uint64_t done = 0; done < size; done += length) {
		uint64_t digest;

		length = chunk_length(bytes + done, size - done, gears);
		digest = sha_256(bytes + done, length);
		if (remember(index, slots, digest))
			fresh += length;
		sum = sum * 31 + digest;
	}
	free(index);
	free(bytes);
	return workload_finish(sum + fresh);
}
