/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convergence.h"

/* Instructions of a path that are examined, and their hash slots. */
#define MOST_LOOKED 128u
#define PLACES 512u

/* An instruction of a path, and which registers were changed before it. */
struct step {
	uint64_t address, changed;
	uint32_t stretch, operation;
};

/* Registers as bits; those that share one count as the same. */
static uint64_t registers_of(const struct operation *op)
{
	uint64_t bits = 0;

	if (op->kind != OP_PUT)
		return 0;
	for (uint32_t i = 0; i < op->b; i++)
		bits |= UINT64_C(1) << (op->to + i) % 64;
	return bits;
}

/* The first instructions of a path; their number. */
static uint32_t steps_of(const struct path *path, struct step steps[MOST_LOOKED])
{
	uint64_t changed = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < path->count; i++) {
		const struct stretch *stretch = &path->stretches[i];

		for (uint32_t o = stretch->begin; o < stretch->end; o++) {
			const struct operation *op =
				&stretch->block->operations[o];

			changed |= registers_of(op);
			if (op->kind != OP_INSTRUCTION)
				continue;
			steps[count++] = (struct step){ operation_address(op),
							changed, i, o };
			if (count == MOST_LOOKED)
				return count;
		}
	}
	return count;
}

static uint32_t bits_in(uint64_t bits)
{
	return bits ? 1 + bits_in(bits & (bits - 1)) : 0;
}

bool convergence_find(const struct path *wrong, const struct path *right,
		      struct convergence *found)
{
	static struct step theirs[MOST_LOOKED], ours[MOST_LOOKED];
	uint16_t places[PLACES] = { 0 };	/* index + 1 of theirs */
	uint32_t n = steps_of(wrong, theirs), m = steps_of(right, ours);
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = mix(theirs[i].address) % PLACES;

		while (places[at] &&
		       theirs[places[at] - 1].address != theirs[i].address)
			at = (at + 1) % PLACES;
		if (!places[at])
			places[at] = (uint16_t)(i + 1);
	}
	for (uint32_t i = 0; i < m; i++) {
		uint64_t at = mix(ours[i].address) % PLACES;
		const struct step *there;
		uint32_t changed;

		while (places[at] &&
		       theirs[places[at] - 1].address != ours[i].address)
			at = (at + 1) % PLACES;
		if (!places[at])
			continue;
		there = &theirs[places[at] - 1];
		changed = bits_in(there->changed | ours[i].changed);
		/* Paths mostly converge at higher addresses; at lower ones a loop repeats. */
		if (changed > least ||
		    (changed == least && there->address <= found->address))
			continue;
		least = changed;
		*found = (struct convergence){
			there->address, there->stretch, there->operation,
		};
	}
	return least != UINT32_MAX;
}
