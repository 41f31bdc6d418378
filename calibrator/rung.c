/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rung.h"

#include <math.h>

#include "code.h"
#include "order.h"
#include "pair.h"
#include "stay.h"

static const char *const access_names[] = {
	[CHASE_SERIAL] = "serial", [CHASE_OVERLAPPED] = "overlapped", [CHASE_STORE] = "store",
	[CHASE_CHAINS_2] = "chains_2", [CHASE_CHAINS_4] = "chains_4",
	[CHASE_CHAINS_8] = "chains_8", [CHASE_INDEPENDENT] = "independent",
	[CHASE_SEQUENTIAL] = "sequential", [CHASE_FLUSHED] = "flushed",
};
#define ACCESSES (sizeof(access_names) / sizeof(access_names[0]))

/* Jumps per timing. */
#define JUMPS 16384

/* Time two chains of jumps.  Returns 0, or -1 with errno set. */
static int time_jumps(const struct rung *rung, const struct chase chases[2], uint64_t *seed,
		      double ns[2])
{
	const struct arena *const arenas[2] = { &rung->ground->apart, &rung->ground->packed };
	struct code code;
	unsigned which;

	for (unsigned i = 0; i < 2; i++) {
		which = (i + rung->number) & 1;
		code = (struct code){
			.memory = chases[which].memory,
			.bytes = arenas[which]->pages * arenas[which]->page_bytes,
			.stride = chases[which].layout.stride, .lines = chases[which].lines,
		};
		if (code_link(&code, chases[which].order, seed) != 0)
			return -1;
		ns[which] = code_time(&code, JUMPS);
	}
	return 0;
}

static int add(struct samples *samples, const struct rung *rung, enum chase_access access,
	       const double ns[2])
{
	return samples_add(samples, (struct sample){
		.probe = rung->group->probe, .layout = rung->series->name,
		.access = access_names[access], .page_bytes = rung->pages->bytes,
		.spacing = rung->series->layout.spacing, .lines = rung->lines,
		.repetition = rung->number, .ns = ns[0], .packed_ns = ns[1],
	});
}

int rung_time(const struct rung *rung, struct machine *machine, struct samples *samples)
{
	const uint64_t state = order_random(&machine->seed);
	double ns[2] = { NAN, NAN };
	struct chase chases[2];
	unsigned count = ground_chases(rung->ground, machine, rung->series, rung->lines, chases);

	if (rung->group == &groups[GROUP_CODE])
		return time_jumps(rung, chases, &machine->seed, ns) != 0 ?
			       -1 : add(samples, rung, CHASE_SERIAL, ns);
	/* Linking takes as long as timing; the same chain may be timed in the next sweep too. */
	for (unsigned i = 0; i < count && rung->ground->linked != rung->lines; i++)
		chase_link(&chases[i], &machine->seed);
	rung->ground->linked = rung->lines;
	if (rung->group == &groups[GROUP_STAY])
		return stay_time(&chases[0], state, ns) != 0 ?
			       -1 : add(samples, rung, CHASE_SERIAL, ns);
	for (unsigned access = 0; access < ACCESSES; access++) {
		if (!(rung->group->accesses & 1u << access))
			continue;
		if (pair_time(chases, count, access, state, rung->number & 1, ns) != 0 ||
		    add(samples, rung, access, ns) != 0)
			return -1;
	}
	return 0;
}
