/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "paths.h"

/* A path this long without convergence is another path. */
#define MOST_STEPS 512u

void paths_init(struct paths *paths)
{
	for (uint32_t i = 0; i < PATHS_BRANCHES; i++) {
		paths->forks[i].branch = 0;
		paths->forks[i].ways[0].count = paths->forks[i].ways[1].count = 0;
	}
	paths->executed = 0;
	paths->oldest = paths->branches = 0;
	paths->wrong_count = 0;
}

static uint64_t mix(uint64_t number)
{
	return (number * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

static struct fork *fork_of(struct paths *paths, uint64_t branch)
{
	return &paths->forks[mix(branch) % PATHS_BRANCHES];
}

static void extend(struct way *way, struct stretch stretch)
{
	if (way->count < PATHS_BLOCKS && stretch.begin < stretch.end)
		way->stretches[way->count++] = stretch;
}

/* What followed the oldest branch is what is known of it from now on. */
static void keep(struct paths *paths)
{
	const struct behind *behind =
		&paths->behind[paths->oldest++ % PATHS_BEHIND];
	struct fork *fork = fork_of(paths, behind->branch);
	struct way *way = &fork->ways[behind->taken];

	if (fork->branch != behind->branch) {
		fork->branch = behind->branch;
		fork->ways[!behind->taken].count = 0;
	}
	way->count = 0;
	extend(way, behind->rest);
	for (uint64_t i = behind->first; i < paths->executed; i++)
		extend(way, paths->blocks[i % PATHS_RECENT]);
}

/* From here on it is of interest what follows this branch. */
static void look_behind(struct paths *paths, const struct program *program,
			const struct departure *departure, uint32_t branch,
			uint32_t operation, bool taken)
{
	if (paths->branches - paths->oldest == PATHS_BEHIND)
		keep(paths);
	paths->behind[paths->branches++ % PATHS_BEHIND] = (struct behind){
		.branch = program_branch(program, branch),
		.first = paths->executed,
		.rest = { program, operation + 1,
			  taken ? 0 : departure->operations },
		.taken = taken,
	};
}

static void add_block(struct paths *paths, struct stretch block)
{
	if (block.begin == block.end)
		return;
	paths->blocks[paths->executed++ % PATHS_RECENT] = block;
	while (paths->oldest < paths->branches &&
	       paths->executed -
			       paths->behind[paths->oldest % PATHS_BEHIND].first >=
		       PATHS_BLOCKS)
		keep(paths);
}

/* Instructions of a way that are looked at, and places for them by hash. */
#define MOST_LOOKED 128u
#define PLACES 512u

/* An instruction of a way, and which registers were changed before it. */
struct step {
	uint64_t address, changed;
	uint32_t stretch, operation;
};

/* Registers as bits; those that share one are taken for the same. */
static uint64_t registers_of(const struct operation *op)
{
	uint64_t bits = 0;

	if (op->kind != OP_PUT)
		return 0;
	for (uint32_t i = 0; i < op->b; i++)
		bits |= UINT64_C(1) << (op->to + i) % 64;
	return bits;
}

/* The first instructions of a way; their number. */
static uint32_t steps_of(const struct way *way, struct step steps[MOST_LOOKED])
{
	uint64_t changed = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < way->count; i++) {
		const struct stretch *stretch = &way->stretches[i];

		for (uint32_t o = stretch->begin; o < stretch->end; o++) {
			const struct operation *op =
				&stretch->program->operations[o];

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

/* Where both ways come, having changed the fewest registers; false: nowhere. */
static bool find_convergence(struct wrong_path *wrong, const struct way *right)
{
	static struct step theirs[MOST_LOOKED], ours[MOST_LOOKED];
	uint16_t places[PLACES] = { 0 };	/* index + 1 of theirs */
	uint32_t n = steps_of(&wrong->way, theirs), m = steps_of(right, ours);
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
		/* Ways mostly meet below; above, a loop has come round. */
		if (changed > least ||
		    (changed == least && there->address <= wrong->convergence))
			continue;
		least = changed;
		wrong->convergence = there->address;
		wrong->stretch = there->stretch;
		wrong->operation = there->operation;
	}
	return least != UINT32_MAX;
}

static void turn(struct outcomes *outcomes, uint32_t operation, bool met)
{
	if (outcomes->turn_count == PROGRAM_TURNS)
		return;
	outcomes->turns[outcomes->turn_count++] = (struct turn){
		operation, met, outcomes->changed_count };
}

/* Wrong paths are forgotten: none converges any more. */
static void lose(struct paths *paths, struct outcomes *outcomes,
		 uint32_t operation)
{
	paths->wrong_count = 0;
	turn(outcomes, operation, false);
}

/* The core goes the other way of this branch. */
static void take_wrong_path(struct paths *paths, const struct program *program,
		      uint32_t branch, uint32_t operation, bool taken,
		      struct outcomes *outcomes)
{
	const uint64_t name = program_branch(program, branch);
	const struct fork *fork = fork_of(paths, name);
	struct wrong_path *wrong;

	if (paths->wrong_count == PATHS_WRONG) {
		lose(paths, outcomes, operation + 1);
		return;
	}
	wrong = &paths->wrong[paths->wrong_count];
	wrong->way = fork->ways[!taken];
	if (fork->branch != name ||
	    !find_convergence(wrong, &fork->ways[taken])) {
		lose(paths, outcomes, operation + 1);
		return;
	}
	wrong->steps = 0;
	paths->wrong_count++;
}

static void changed(struct outcomes *outcomes, const struct stretch *stretch,
		    uint32_t end)
{
	for (uint32_t o = stretch->begin; o < end; o++) {
		const struct operation *op = &stretch->program->operations[o];

		if (op->kind == OP_PUT &&
		    outcomes->changed_count < PROGRAM_CHANGED)
			outcomes->changed[outcomes->changed_count++] =
				(struct changed){ op->to, op->b };
	}
}

/* What the wrong path has changed before it converges with the right one is added. */
static void meet(const struct wrong_path *wrong, struct outcomes *outcomes)
{
	const struct stretch *stretch = wrong->way.stretches;

	for (; stretch < wrong->way.stretches + wrong->stretch; stretch++)
		changed(outcomes, stretch, stretch->end);
	changed(outcomes, stretch, wrong->operation);
}

static void look_for_convergence(struct paths *paths, uint64_t at,
			     uint32_t operation, struct outcomes *outcomes)
{
	for (uint32_t i = 0; i < paths->wrong_count; i++) {
		if (paths->wrong[i].convergence == at) {
			meet(&paths->wrong[i], outcomes);
			paths->wrong[i--] = paths->wrong[--paths->wrong_count];
			if (!paths->wrong_count)
				turn(outcomes, operation, true);
		} else if (++paths->wrong[i].steps > MOST_STEPS) {
			lose(paths, outcomes, operation);
		}
	}
}

/*
 * Of branches where nothing goes wrong it is only of interest what follows.
 * They mostly are at a block's end.
 */
static void pass_branches(struct paths *paths, const struct program *program,
			  const struct departure *departure)
{
	uint32_t at[PROGRAM_BRANCHES], o = departure->operations;
	const uint32_t count = departure->branches;

	for (uint32_t i = count; i > 0; i--) {
		do
			o--;
		while (program->operations[o].kind != OP_BRANCH);
		at[i - 1] = o;
	}
	for (uint32_t i = 0; i < count; i++)
		look_behind(paths, program, departure, i, at[i],
			    departure->taken && i + 1 == count);
}

static bool wrong_in(const struct departure *departure,
		     const struct outcomes *outcomes)
{
	for (uint32_t i = 0; i < departure->branches; i++)
		if (!outcomes->predicted[i])
			return true;
	return false;
}

static void follow_branches(struct paths *paths, const struct program *program,
			    const struct departure *departure,
			    struct outcomes *outcomes)
{
	for (uint32_t o = 0; o < departure->operations; o++) {
		const struct operation *op = &program->operations[o];

		if (op->kind == OP_INSTRUCTION && paths->wrong_count) {
			look_for_convergence(paths, operation_address(op), o,
					 outcomes);
		} else if (op->kind == OP_BRANCH) {
			bool taken = departure->taken &&
				     op->b + 1u == departure->branches;

			if (!outcomes->predicted[op->b])
				take_wrong_path(paths, program, op->b, o, taken,
					  outcomes);
			look_behind(paths, program, departure, op->b, o, taken);
		}
	}
}

void paths_follow(struct paths *paths, const struct program *program,
		  const struct departure *departure, struct outcomes *outcomes)
{
	add_block(paths, (struct stretch){ program, 0, departure->operations });
	if (paths->wrong_count || wrong_in(departure, outcomes))
		follow_branches(paths, program, departure, outcomes);
	else
		pass_branches(paths, program, departure);
	if (!outcomes->target_predicted)
		lose(paths, outcomes, departure->operations);
}
