/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Wrong paths: where they meet the right one, and what that brings. */
#include "timing.h"
#include "timing/paths.h"

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
	struct paths *paths;
	struct program *blocks[BLOCKS];
	struct outcomes outcomes;
	uint64_t addresses[2];
};

static struct program *make_program(uint64_t address)
{
	struct program *program = calloc(
		1, sizeof(*program) + 8 * sizeof(struct operation));

	program->capacity = 8;
	program->operations[program->count++] = (struct operation){
		OP_INSTRUCTION, 0, (uint16_t)address, (uint16_t)(address >> 16), 0
	};
	return program;
}

static void add(struct program *program, enum operation_kind kind, int to,
		int a, int b)
{
	program->operations[program->count++] = (struct operation){
		(uint8_t)kind, 0, (uint16_t)to, (uint16_t)a, (uint16_t)b
	};
}

static struct story *make_story(void)
{
	struct timing_config config = plain_config();
	struct story *story = calloc(1, sizeof(*story));

	story->rig = make_rig(&config, false);
	story->paths = calloc(1, sizeof(*story->paths));
	paths_init(story->paths);
	for (int i = 0; i < BLOCKS; i++)
		story->blocks[i] = make_program(0x401000 + 64 * (uint64_t)i);
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
static void visit(struct story *story, int block, bool taken, bool predicted)
{
	const struct program *program = story->blocks[block];
	struct departure departure = {
		.operations = program->count,
		.branches = block == HEAD,
		.taken = taken,
	};

	story->outcomes.predicted[0] = predicted;
	story->outcomes.target_predicted = true;
	story->outcomes.turn_count = story->outcomes.changed_count = 0;
	paths_follow(story->paths, program, &departure, &story->outcomes);
	program_run(program, &departure, &story->outcomes, story->addresses,
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

/* Both ways were taken, and what followed each is known. */
static void learn(struct story *story)
{
	for (int i = 0; i < 64; i++)
		round_trip(story, i % 2 == 1, true,
			   BASE_PAGE * 64 * (uint64_t)(i + 1));
	story->rig->core.front = story->rig->core.retired;
	core_instruction(&story->rig->core);
}

static void ways_meet_where_both_lead(void)
{
	struct story *story = make_story();

	learn(story);
	visit(story, HEAD, true, false);
	CHECK(story->rig->core.wrong_path);
	CHECK_EQUAL(story->rig->core.speculations, 1);
	visit(story, RIGHT, false, true);
	CHECK_EQUAL(story->outcomes.turn_count, 0);
	CHECK(story->rig->core.wrong_path);
	visit(story, JOIN, false, true);
	CHECK_EQUAL(story->outcomes.turn_count, 1);
	CHECK(story->outcomes.turns[0].met);
	CHECK(!story->rig->core.wrong_path);
	/* The way that was not taken changes register A. */
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

static void loads_after_convergence_start_early(void)
{
	struct story *known = make_story(), *unknown = make_story();
	ticks together, apart;

	learn(known);
	learn(unknown);
	paths_init(unknown->paths);
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

static void what_the_wrong_path_leaves_alone_is_not_waited_for(void)
{
	struct story *known = make_story(), *unknown = make_story();

	known->blocks[LEFT]->operations[1].to = REGISTER_B;
	unknown->blocks[LEFT]->operations[1].to = REGISTER_B;
	learn(known);
	learn(unknown);
	paths_init(unknown->paths);
	CHECK(time_of_round(known) < SLOW + CYCLES(60));
	CHECK(time_of_round(unknown) > TWICE);
	drop_story(known);
	drop_story(unknown);
}

static void unknown_ways_bring_nothing(void)
{
	struct story *story = make_story();

	visit(story, HEAD, true, false);
	CHECK_EQUAL(story->outcomes.turn_count, 1);
	CHECK(!story->outcomes.turns[0].met);
	CHECK_EQUAL(story->rig->core.speculations, 0);
	drop_story(story);
}

static const struct check_test tests[] = {
	{ "ways meet where both lead", ways_meet_where_both_lead },
	{ "loads wait for what a wrong path has changed",
	  loads_after_convergence_start_early },
	{ "what a wrong path leaves alone is not waited for",
	  what_the_wrong_path_leaves_alone_is_not_waited_for },
	{ "ways that were never taken bring nothing", unknown_ways_bring_nothing },
};

CHECK_MAIN(tests)
