/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chase.h"

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
	for (size_t i = 0; i < chase->lines; i++)
		(void)*(const volatile char *)line_of(chase, i);
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
