/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "wrong_paths.h"

/* A path that has not converged after this many steps never does. */
#define MOST_STEPS 512u

void wrong_paths_init(struct wrong_paths *paths)
{
	for (uint32_t i = 0; i < WRONG_PATHS_BRANCHES; i++) {
		paths->forks[i].branch = 0;
		paths->forks[i].paths[0].count = paths->forks[i].paths[1].count = 0;
	}
	paths->executed = 0;
	paths->oldest = paths->branches = 0;
	paths->open = 0;
}

static struct fork *fork_of(struct wrong_paths *paths, uint64_t branch)
{
	return &paths->forks[mix(branch) % WRONG_PATHS_BRANCHES];
}

static void extend(struct path *path, struct stretch stretch)
{
	if (path->count < PATH_STRETCHES && stretch.begin < stretch.end)
		path->stretches[path->count++] = stretch;
}

/* What followed the oldest branch is now known. */
static void keep(struct wrong_paths *paths)
{
	const struct pending_branch *pending =
		&paths->pending[paths->oldest++ % WRONG_PATHS_PENDING];
	struct fork *fork = fork_of(paths, pending->branch);
	struct path *path = &fork->paths[pending->taken];

	if (fork->branch != pending->branch) {
		fork->branch = pending->branch;
		fork->paths[!pending->taken].count = 0;
	}
	path->count = 0;
	extend(path, pending->rest);
	for (uint64_t i = pending->first; i < paths->executed; i++)
		extend(path, paths->blocks[i % WRONG_PATHS_RECENT]);
}

/* Record what follows this branch from here on. */
static void note_branch(struct wrong_paths *paths, const struct block *block,
			const struct departure *departure, uint32_t branch,
			uint32_t operation, bool taken)
{
	if (paths->branches - paths->oldest == WRONG_PATHS_PENDING)
		keep(paths);
	paths->pending[paths->branches++ % WRONG_PATHS_PENDING] = (struct pending_branch){
		.branch = block_branch(block, branch),
		.first = paths->executed,
		.rest = { block, operation + 1,
			  taken ? 0 : departure->operations },
		.taken = taken,
	};
}

static void add_block(struct wrong_paths *paths, struct stretch block)
{
	if (block.begin == block.end)
		return;
	paths->blocks[paths->executed++ % WRONG_PATHS_RECENT] = block;
	while (paths->oldest < paths->branches &&
	       paths->executed -
			       paths->pending[paths->oldest % WRONG_PATHS_PENDING].first >=
		       PATH_STRETCHES)
		keep(paths);
}

static void end_paths(struct outcomes *outcomes, uint32_t operation, bool converged)
{
	if (outcomes->path_end_count == BLOCK_PATH_ENDS)
		return;
	outcomes->path_ends[outcomes->path_end_count++] = (struct path_end){
		operation, converged, outcomes->changed_count };
}

/* Abandon all open wrong paths. */
static void lose(struct wrong_paths *paths, struct outcomes *outcomes,
		 uint32_t operation)
{
	paths->open = 0;
	end_paths(outcomes, operation, false);
}

/* The core takes the other path of this branch. */
static void go_wrong(struct wrong_paths *paths, const struct block *block,
		      uint32_t branch, uint32_t operation, bool taken,
		      struct outcomes *outcomes)
{
	const uint64_t name = block_branch(block, branch);
	const struct fork *fork = fork_of(paths, name);
	struct wrong_path *wrong;

	if (paths->open == WRONG_PATHS_OPEN) {
		lose(paths, outcomes, operation + 1);
		return;
	}
	wrong = &paths->wrong[paths->open];
	wrong->path = fork->paths[!taken];
	if (fork->branch != name ||
	    !convergence_find(&wrong->path, &fork->paths[taken],
			      &wrong->convergence)) {
		lose(paths, outcomes, operation + 1);
		return;
	}
	wrong->steps = 0;
	paths->open++;
}

static void changed(struct outcomes *outcomes, const struct stretch *stretch,
		    uint32_t end)
{
	for (uint32_t o = stretch->begin; o < end; o++) {
		const struct operation *op = &stretch->block->operations[o];

		if (op->kind == OP_PUT &&
		    outcomes->changed_count < BLOCK_CHANGED)
			outcomes->changed[outcomes->changed_count++] =
				(struct changed){ op->to, op->b };
	}
}

/* Add what the wrong path has changed before it converges with the right one. */
static void converge(const struct wrong_path *wrong, struct outcomes *outcomes)
{
	const struct stretch *stretch = wrong->path.stretches;
	const struct stretch *last = stretch + wrong->convergence.stretch;

	for (; stretch < last; stretch++)
		changed(outcomes, stretch, stretch->end);
	changed(outcomes, last, wrong->convergence.operation);
}

static void look_for_convergence(struct wrong_paths *paths, uint64_t at,
			     uint32_t operation, struct outcomes *outcomes)
{
	for (uint32_t i = 0; i < paths->open; i++) {
		if (paths->wrong[i].convergence.address == at) {
			converge(&paths->wrong[i], outcomes);
			paths->wrong[i--] = paths->wrong[--paths->open];
			if (!paths->open)
				end_paths(outcomes, operation, true);
		} else if (++paths->wrong[i].steps > MOST_STEPS) {
			lose(paths, outcomes, operation);
		}
	}
}

/*
 * For predicted branches only what follows matters.  They are mostly at a block's end.
 */
static void pass_branches(struct wrong_paths *paths, const struct block *block,
			  const struct departure *departure)
{
	uint32_t at[BLOCK_BRANCHES], o = departure->operations;
	const uint32_t count = departure->branches;

	for (uint32_t i = count; i > 0; i--) {
		do
			o--;
		while (block->operations[o].kind != OP_BRANCH);
		at[i - 1] = o;
	}
	for (uint32_t i = 0; i < count; i++)
		note_branch(paths, block, departure, i, at[i],
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

static void follow_branches(struct wrong_paths *paths, const struct block *block,
			    const struct departure *departure,
			    struct outcomes *outcomes)
{
	for (uint32_t o = 0; o < departure->operations; o++) {
		const struct operation *op = &block->operations[o];

		if (op->kind == OP_INSTRUCTION && paths->open) {
			look_for_convergence(paths, operation_address(op), o,
					 outcomes);
		} else if (op->kind == OP_BRANCH) {
			bool taken = departure->taken &&
				     op->b + 1u == departure->branches;

			if (!outcomes->predicted[op->b])
				go_wrong(paths, block, op->b, o, taken,
					  outcomes);
			note_branch(paths, block, departure, op->b, o, taken);
		}
	}
}

void wrong_paths_follow(struct wrong_paths *paths, const struct block *block,
			const struct departure *departure,
			struct outcomes *outcomes)
{
	add_block(paths, (struct stretch){ block, 0, departure->operations });
	if (paths->open || wrong_in(departure, outcomes))
		follow_branches(paths, block, departure, outcomes);
	else
		pass_branches(paths, block, departure);
	if (!outcomes->target_predicted)
		lose(paths, outcomes, departure->operations);
}
