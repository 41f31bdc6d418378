/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Wrong paths: where they converge with the right one, and what that brings. */
#include "timing.h"
#include "timing/wrong_paths.h"

#define SLOW CYCLES(200)
/* The first of two loads in a row may have begun before the time is taken. */
#define TWICE (2 * SLOW - CYCLES(40))
#define REGISTER_A 2
#define REGISTER_B 3
#define COUNTERS 4

/*
 * A block that ends in a branch on what it loads, two that change a register,
 * and one that both lead to.
 */
enum { HEAD, LEFT, RIGHT, JOIN, BLOCKS };

struct story {
	struct rig *rig;
	struct wrong_paths *paths;
	struct block *blocks[BLOCKS];
	struct outcomes outcomes;
	uint64_t addresses[2];
};

static struct block *make_block(uint64_t address)
{
	struct block *block = calloc(
		1, sizeof(*block) + 8 * sizeof(struct operation));

	block->capacity = 8;
	block->operations[block->count++] = (struct operation){
		OP_INSTRUCTION, 0, (uint16_t)address, (uint16_t)(address >> 16), 0
	};
	return block;
}

static void add(struct block *block, enum operation_kind kind, int to,
		int a, int b)
{
	block->operations[block->count++] = (struct operation){
		(uint8_t)kind, 0, (uint16_t)to, (uint16_t)a, (uint16_t)b
	};
}

static struct story *make_story(void)
{
	struct timing_config config = plain_config();
	struct story *story = calloc(1, sizeof(*story));

	story->rig = make_rig(&config, false);
	story->paths = calloc(1, sizeof(*story->paths));
	wrong_paths_init(story->paths);
	for (int i = 0; i < BLOCKS; i++)
		story->blocks[i] = make_block(0x401000 + 64 * (uint64_t)i);
	add(story->blocks[HEAD], OP_LOAD, 1, 0, 0);
	add(story->blocks[HEAD], OP_BRANCH, 0, 1, 0);
	add(story->blocks[LEFT], OP_PUT, REGISTER_A, 0, 1);
	add(story->blocks[RIGHT], OP_PUT, REGISTER_B, 0, 1);
	add(story->blocks[JOIN], OP_GET, 1, REGISTER_A, 0);
	add(story->blocks[JOIN], OP_LOAD, 2, 0, 0);
	add(story->blocks[JOIN], OP_LOAD, 3, 1, 1);
	/* As a loop counts. */
	add(story->blocks[JOIN], OP_PUT, COUNTERS, 0, 2);
	return story;
}

static void drop_story(struct story *story)
{
	for (int i = 0; i < BLOCKS; i++)
		free(story->blocks[i]);
	drop_rig(story->rig);
	free(story->paths);
	free(story);
}

/* Execute a block; `taken`: its branch was, if it has one. */
static void visit(struct story *story, int number, bool taken, bool predicted)
{
	const struct block *block = story->blocks[number];
	struct departure departure = {
		.operations = block->count,
		.branches = number == HEAD,
		.taken = taken,
	};

	story->outcomes.predicted[0] = predicted;
	story->outcomes.target_predicted = true;
	story->outcomes.path_end_count = story->outcomes.changed_count = 0;
	wrong_paths_follow(story->paths, block, &departure, &story->outcomes);
	block_run(block, &departure, &story->outcomes, story->addresses,
		  &story->rig->core, 1);
}

static void round_trip(struct story *story, bool taken, bool predicted,
		       uint64_t address)
{
	story->addresses[0] = address;
	story->addresses[1] = address + 8 * BASE_PAGE;
	visit(story, HEAD, taken, predicted);
	visit(story, taken ? RIGHT : LEFT, false, true);
	story->addresses[0] = address + 16 * BASE_PAGE;
	visit(story, JOIN, false, true);
}

/* Both paths were executed, and what followed each is known. */
static void learn(struct story *story)
{
	for (int i = 0; i < 64; i++)
		round_trip(story, i % 2 == 1, true,
			   BASE_PAGE * 64 * (uint64_t)(i + 1));
	story->rig->core.front = story->rig->core.retired;
	core_instruction(&story->rig->core);
}

TEST(paths_converge_where_both_lead)
{
	struct story *story = make_story();

	learn(story);
	visit(story, HEAD, true, false);
	CHECK(story->rig->core.diverged);
	CHECK_EQUAL(story->rig->core.speculative_count, 1);
	visit(story, RIGHT, false, true);
	CHECK_EQUAL(story->outcomes.path_end_count, 0);
	CHECK(story->rig->core.diverged);
	visit(story, JOIN, false, true);
	CHECK_EQUAL(story->outcomes.path_end_count, 1);
	CHECK(story->outcomes.path_ends[0].converged);
	CHECK(!story->rig->core.diverged);
	/* The path that was not executed changes register A. */
	CHECK_EQUAL(story->outcomes.changed_count, 1);
	CHECK_EQUAL(story->outcomes.changed[0].first, REGISTER_A);
	drop_story(story);
}

/* Cycles that a round takes whose branch was not predicted. */
static ticks time_of_round(struct story *story)
{
	ticks start = story->rig->core.retired;

	round_trip(story, true, false, BASE_PAGE * 8192);
	return all_left(story->rig) - start;
}

TEST(loads_after_convergence_start_early)
{
	struct story *known = make_story(), *unknown = make_story();
	ticks together, apart;

	learn(known);
	learn(unknown);
	wrong_paths_init(unknown->paths);
	together = time_of_round(known);
	apart = time_of_round(unknown);
	/*
	 * Without the wrong path both loads of JOIN follow the branch's; with
	 * it one of them does not wait, but the one whose address the wrong
	 * path has changed does.
	 */
	CHECK(apart > TWICE);
	CHECK(together > TWICE);
	CHECK(together <= apart);
	drop_story(known);
	drop_story(unknown);
}

TEST(what_the_wrong_path_leaves_alone_is_not_waited_for)
{
	struct story *known = make_story(), *unknown = make_story();

	known->blocks[LEFT]->operations[1].to = REGISTER_B;
	unknown->blocks[LEFT]->operations[1].to = REGISTER_B;
	learn(known);
	learn(unknown);
	wrong_paths_init(unknown->paths);
	CHECK(time_of_round(known) < SLOW + CYCLES(60));
	CHECK(time_of_round(unknown) > TWICE);
	drop_story(known);
	drop_story(unknown);
}

TEST(unknown_paths_bring_nothing)
{
	struct story *story = make_story();

	visit(story, HEAD, true, false);
	CHECK_EQUAL(story->outcomes.path_end_count, 1);
	CHECK(!story->outcomes.path_ends[0].converged);
	CHECK_EQUAL(story->rig->core.speculative_count, 0);
	drop_story(story);
}

CHECK_MAIN
