/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chase.h"

#include "clock.h"

uint64_t chase_random(uint64_t *state)
{
	/* A counter and a strong mixer (splitmix64): any seed will do, also 0. */
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void **line_of(const struct chase *chase, size_t line)
{
	return (void **)(void *)(chase->memory + layout_place(&chase->layout, line));
}

void chase_touch(const struct chase *chase)
{
	for (size_t i = 0; i < chase->lines; i++)
		*(volatile char *)line_of(chase, i) = 1;
}

void chase_read(const struct chase *chase)
{
	for (size_t i = 0; i < chase->lines; i++)
		(void)*(const volatile char *)line_of(chase, i);
}

void chase_shuffle(uint32_t *order, size_t n, uint64_t *seed)
{
	size_t other;
	uint32_t swap;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		other = (size_t)(chase_random(seed) % i);
		swap = order[i - 1];
		order[i - 1] = order[other];
		order[other] = swap;
	}
}

static size_t common_divisor(size_t a, size_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* Block after block, in an order that no prefetcher foresees; random within each. */
static void order_blocks(const struct chase *chase, uint64_t *seed)
{
	size_t size = chase->layout.block_lines, blocks = (chase->lines + size - 1) / size;
	size_t step, block, length;
	uint32_t *order = chase->order;

	do
		step = 1 + (size_t)(chase_random(seed) % blocks);
	while (common_divisor(step, blocks) != 1);
	for (size_t i = 0; i < blocks; i++) {
		block = i * step % blocks;
		length = block + 1 < blocks ? size : chase->lines - block * size;
		chase_shuffle(order, length, seed);
		for (size_t j = 0; j < length; j++)
			order[j] += (uint32_t)(block * size);
		order += length;
	}
}

void chase_link(const struct chase *chase, uint64_t *seed)
{
	size_t n = chase->lines;

	if (chase->layout.by_block)
		order_blocks(chase, seed);
	else
		chase_shuffle(chase->order, n, seed);
	for (size_t i = 0; i < n; i++)
		*line_of(chase, chase->order[i]) =
			line_of(chase, chase->order[i + 1 < n ? i + 1 : 0]);
}

__attribute__((noinline)) void *chase_serial(void *start, size_t count)
{
	void **at = start;

	while (count--)
		at = *at;
	return at;
}

static __attribute__((noinline)) void two_chains(void **at, size_t count)
{
	void **a = at[0], **b = at[1];

	while (count--) {
		a = *a;
		b = *b;
	}
	at[0] = a;
	at[1] = b;
}

static __attribute__((noinline)) void four_chains(void **at, size_t count)
{
	void **a = at[0], **b = at[1], **c = at[2], **d = at[3];

	while (count--) {
		a = *a;
		b = *b;
		c = *c;
		d = *d;
	}
	at[0] = a;
	at[1] = b;
	at[2] = c;
	at[3] = d;
}

static __attribute__((noinline)) void eight_chains(void **at, size_t count)
{
	void **a = at[0], **b = at[1], **c = at[2], **d = at[3];
	void **e = at[4], **f = at[5], **g = at[6], **h = at[7];

	while (count--) {
		a = *a;
		b = *b;
		c = *c;
		d = *d;
		e = *e;
		f = *f;
		g = *g;
		h = *h;
	}
	at[0] = a;
	at[1] = b;
	at[2] = c;
	at[3] = d;
	at[4] = e;
	at[5] = f;
	at[6] = g;
	at[7] = h;
}

static __attribute__((noinline)) void overlapped(struct chase_run *run, size_t count)
{
	/* The second word of each line, so that the ring survives. */
	char *memory = run->chase->memory + sizeof(void *);
	const size_t stride = run->chase->layout.stride;
	const uint64_t lines = run->chase->lines;
	uint64_t z, state = run->state;

	/*
	 * Only the counter passes from one step to the next, in one cycle; the
	 * mixing of different steps overlaps, so that the generator is never
	 * what the loop waits for.
	 */
	while (count--) {
		state += 0x9e3779b97f4a7c15u;
		z = (state ^ state >> 29) * 0xbf58476d1ce4e5b9u;
		*(uint64_t *)(void *)(memory + ((z >> 32) * lines >> 32) * stride) += z;
	}
	run->state = state;
}

static __attribute__((noinline)) void store(struct chase_run *run, size_t count)
{
	char *memory = run->chase->memory + sizeof(void *);
	const size_t stride = run->chase->layout.stride, lines = run->chase->lines;
	const uint32_t *order = run->chase->order;
	size_t next = run->next;

	/* In the order of the ring, so that one line too many makes all of them miss. */
	while (count--) {
		*(volatile uint64_t *)(void *)(memory + order[next] * stride) = ~count;
		next = next + 1 < lines ? next + 1 : 0;
	}
	run->next = next;
}

struct chase_run chase_start(const struct chase *chase, uint64_t seed)
{
	struct chase_run run = { .chase = chase, .state = seed };

	/*
	 * Chains side by side follow each other round the same ring: between
	 * two visits to a line all other lines are visited, as with one chain.
	 */
	for (size_t i = 0; i < CHASE_MOST_CHAINS; i++)
		run.at[i] = line_of(chase, chase->order[i * chase->lines / CHASE_MOST_CHAINS]);
	return run;
}

/* The first places of a run, so many, as far apart as they can be. */
static void take_places(const struct chase_run *run, size_t chains, void **at)
{
	for (size_t i = 0; i < chains; i++)
		at[i] = run->at[i * CHASE_MOST_CHAINS / chains];
}

static void leave_places(struct chase_run *run, size_t chains, void **at)
{
	for (size_t i = 0; i < chains; i++)
		run->at[i * CHASE_MOST_CHAINS / chains] = at[i];
}

double chase_time(struct chase_run *run, enum chase_access access, size_t count)
{
	size_t chains = access == CHASE_CHAINS_8 ? 8 : access == CHASE_CHAINS_4 ? 4 :
			access == CHASE_CHAINS_2 ? 2 : 1;
	void *at[CHASE_MOST_CHAINS];
	uint64_t start;

	take_places(run, chains, at);
	start = clock_ns();
	switch (access) {
	case CHASE_SERIAL:
		at[0] = chase_serial(at[0], count);
		break;
	case CHASE_OVERLAPPED:
		overlapped(run, count);
		break;
	case CHASE_STORE:
		store(run, count);
		break;
	case CHASE_CHAINS_2:
		two_chains(at, count / 2);
		break;
	case CHASE_CHAINS_4:
		four_chains(at, count / 4);
		break;
	case CHASE_CHAINS_8:
		eight_chains(at, count / 8);
		break;
	}
	start = clock_ns() - start;
	leave_places(run, chains, at);
	return (double)start / (double)count;
}
