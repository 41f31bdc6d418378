/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chase.h"

#include <errno.h>

#include "clock.h"
#include "order.h"

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
	const struct layout *layout = &chase->layout;
	const size_t lines = chase->lines;
	const char *at;
	size_t end;

	/* Finding a line takes a division, slower than a prefetched read: once per block. */
	for (size_t i = 0; i < lines; i = end) {
		end = lines - i > layout->block_lines ? i + layout->block_lines : lines;
		at = (const char *)line_of(chase, i);
		for (size_t j = i; j < end; j++, at += layout->stride)
			(void)*(const volatile char *)at;
	}
}

#if defined(__x86_64__)
#define FLUSH(line) __asm__ volatile("clflush (%0)" : : "r"(line) : "memory")
#define FLUSHED() __asm__ volatile("mfence" : : : "memory")
#elif defined(__aarch64__)
#define FLUSH(line) __asm__ volatile("dc civac, %0" : : "r"(line) : "memory")
#define FLUSHED() __asm__ volatile("dsb sy" : : : "memory")
#endif

int chase_flush(const struct chase *chase)
{
#ifdef FLUSH
	for (size_t i = 0; i < chase->lines; i++)
		FLUSH(line_of(chase, i));
	FLUSHED();
	return 0;
#else
	(void)chase;
	errno = ENOTSUP;
	return -1;
#endif
}

void chase_link(const struct chase *chase, uint64_t *seed)
{
	size_t n = chase->lines;

	order_lines(&chase->layout, chase->order, n, seed);
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

/* Separate variables, because GCC keeps no array in registers. */
#define TWO(of) of(0) of(1)
#define FOUR(of) TWO(of) of(2) of(3)
#define EIGHT(of) FOUR(of) of(4) of(5) of(6) of(7)
#define TAKE(i) void **at_##i = at[i];
#define STEP(i) at_##i = *at_##i;
#define LEAVE(i) at[i] = at_##i;
#define CHAINS(name, each)							\
	static __attribute__((noinline)) void name(void **at, size_t count)	\
	{									\
		each(TAKE)							\
		while (count--) {						\
			each(STEP)						\
		}								\
		each(LEAVE)							\
	}

CHAINS(two_chains, TWO)
CHAINS(four_chains, FOUR)
CHAINS(eight_chains, EIGHT)

static __attribute__((noinline)) void overlapped(struct chase_run *run, size_t count)
{
	/* The second word of each line, so that the ring survives. */
	char *memory = run->chase->memory + sizeof(void *);
	const size_t stride = run->chase->layout.stride;
	const uint64_t lines = run->chase->lines;
	uint64_t z, state = run->state;

	/*
	 * Only the counter passes from one step to the next, in one cycle; the mixing of
	 * different steps overlaps, so the loop never waits for the generator.
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

static __attribute__((noinline)) void independent(struct chase_run *run, size_t count)
{
	const char *memory = run->chase->memory;
	const size_t stride = run->chase->layout.stride, lines = run->chase->lines;
	const uint32_t *order = run->chase->order;
	size_t next = run->next;

	/* The order is read ahead, so the core has as many reads in flight as it can. */
	while (count--) {
		(void)*(const volatile uint64_t *)(const void *)(memory + order[next] * stride);
		next = next + 1 < lines ? next + 1 : 0;
	}
	run->next = next;
}

static __attribute__((noinline)) void sequential(struct chase_run *run, size_t count)
{
	const char *memory = run->chase->memory;
	const size_t stride = run->chase->layout.stride, lines = run->chase->lines;
	size_t next = run->next;

	while (count--) {
		(void)*(const volatile uint64_t *)(const void *)(memory + next * stride);
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

/* N first places of a run, as far apart as possible. */
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

static size_t chains_of(enum chase_access access)
{
	switch (access) {
	case CHASE_CHAINS_2:
		return 2;
	case CHASE_CHAINS_4:
		return 4;
	case CHASE_CHAINS_8:
		return 8;
	default:
		return 1;
	}
}

double chase_time(struct chase_run *run, enum chase_access access, size_t count)
{
	size_t chains = chains_of(access);
	void *at[CHASE_MOST_CHAINS];
	uint64_t start;

	take_places(run, chains, at);
	start = clock_ns();
	switch (access) {
	case CHASE_SERIAL:
	case CHASE_FLUSHED:
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
	case CHASE_INDEPENDENT:
		independent(run, count);
		break;
	case CHASE_SEQUENTIAL:
		sequential(run, count);
		break;
	}
	start = clock_ns() - start;
	leave_places(run, chains, at);
	return (double)start / (double)count;
}
