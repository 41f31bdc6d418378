/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Blocks of operations, as an engine makes them, on a core. */
#include "timing.h"
#include "timing/block.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
#define FEW CYCLES(4)
#define APART (BASE_PAGE + 64)
#define MOST_OPERATIONS 32u

/* A block and the core that it runs on. */
struct story {
	struct rig *rig;
	struct block *block;
	struct branches branches;
	struct departure departure;
	struct outcomes outcomes;
	uint64_t addresses[8];
};

static struct story *make_story(void)
{
	struct timing_config config = plain_config();
	struct story *story = calloc(1, sizeof(*story));

	story->rig = make_rig(&config, false);
	story->block = calloc(1, sizeof(*story->block) +
				   MOST_OPERATIONS * sizeof(struct operation));
	story->block->capacity = MOST_OPERATIONS;
	branches_init(&story->branches);
	return story;
}

static void drop_story(struct story *story)
{
	drop_rig(story->rig);
	free(story->block);
	free(story);
}

static void add(struct story *story, enum operation_kind kind, int to, int a,
		int b, int cycles)
{
	story->block->operations[story->block->count++] = (struct operation){
		(uint8_t)kind, (uint8_t)cycles, (uint16_t)to, (uint16_t)a,
		(uint16_t)b
	};
	story->departure.operations = story->block->count;
}

static void run(struct story *story)
{
	block_predict(story->block, &story->departure, &story->branches,
		      &story->outcomes);
	block_run(story->block, &story->departure, &story->outcomes,
		  story->addresses, &story->rig->core, 1);
}

TEST(values_are_joined)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_JOIN, 1, 0, 0, 5);
	add(story, OP_JOIN, 2, 0, 0, 70);
	add(story, OP_JOIN, 3, 1, 2, 3);
	add(story, OP_JOIN, 4, 3, 1, 0);
	add(story, OP_PUT, 10, 4, 1, 0);
	run(story);
	CHECK_EQUAL(story->rig->core.registers[10], CYCLES(73));
	/* The instruction is done when its results are. */
	CHECK(about(all_left(story->rig), CYCLES(73), FEW));
	drop_story(story);
}

TEST(registers_are_put_and_got)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_GET, 1, 20, 0, 0);
	add(story, OP_JOIN, 2, 1, 0, 10);
	add(story, OP_PUT, 20, 2, 4, 0);
	for (int i = 0; i < 50; i++)
		run(story);
	/* Each run's sum waits for the one before. */
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(story->rig->core.registers[20 + i], CYCLES(500));
	CHECK_EQUAL(story->rig->core.registers[19], 0);
	CHECK_EQUAL(story->rig->core.registers[24], 0);
	CHECK(about(all_left(story->rig), CYCLES(500), FEW));
	drop_story(story);
}

TEST(references_that_were_not_made_take_no_time)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_JOIN, 1, 0, 0, 9);
	add(story, OP_LOAD, 2, 1, 0, 0);
	add(story, OP_STORE, 1, 0, 2, 0);
	add(story, OP_PUT, 7, 2, 1, 0);
	/* Its value is there when the condition is. */
	run(story);
	CHECK_EQUAL(story->rig->core.registers[7], CYCLES(9));
	CHECK_EQUAL(story->rig->core.stores, 0);
	story->addresses[0] = 4096;
	run(story);
	CHECK(about(story->rig->core.registers[7], CYCLES(9) + MEMORY, FEW));
	CHECK_EQUAL(story->rig->core.stores, 0);
	story->addresses[1] = 8192;
	run(story);
	CHECK_EQUAL(story->rig->core.stores, 1);
	drop_story(story);
}

TEST(fences_give_values)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_STORE, 0, 0, 0, 0);
	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_FENCE, 1, 0, 0, 0);
	add(story, OP_PUT, 7, 1, 1, 0);
	story->addresses[0] = 4096;
	run(story);
	CHECK(about(story->rig->core.registers[7], MEMORY, FEW));
	drop_story(story);
}

TEST(what_was_not_executed_does_not_count)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_BRANCH, 0, 0, 0, 0);
	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_LOAD, 1, 0, 0, 0);
	add(story, OP_PUT, 7, 1, 1, 0);
	story->addresses[0] = 4096;
	story->departure = (struct departure){ .operations = 2, .branches = 1, .taken = true };
	run(story);
	CHECK_EQUAL(story->rig->core.reorder_place, 1);
	CHECK_EQUAL(story->rig->core.registers[7], 0);
	CHECK(all_left(story->rig) < MEMORY);
	drop_story(story);
}

/* All but the last branch of a block fell through. */
TEST(branches_are_learnt)
{
	struct story *story = make_story();
	int wrong = 0;

	for (int branch = 0; branch < 2; branch++) {
		add(story, OP_INSTRUCTION, 0, 0, 0, 0);
		add(story, OP_BRANCH, 0, 0, branch, 0);
	}
	story->departure.branches = 2;
	story->departure.taken = true;
	for (int i = 0; i < 200; i++) {
		run(story);
		if (i >= 100)
			wrong += !story->outcomes.predicted[0] +
				 !story->outcomes.predicted[1];
	}
	CHECK_EQUAL(wrong, 0);
	CHECK(story->outcomes.target_predicted);
	/* Now it goes the other way. */
	story->departure.branches = 1;
	story->departure.operations = 2;
	run(story);
	CHECK(!story->outcomes.predicted[0]);
	drop_story(story);
}

/* What a jump to a value that comes from memory costs the load behind it. */
static ticks jump_and_load(bool known)
{
	struct story *story = make_story();
	ticks time;

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	add(story, OP_LOAD, 1, 0, 0, 0);
	story->departure.indirect = true;
	story->departure.target_value = 1;
	story->addresses[0] = 4096;
	story->outcomes.target_predicted = known;
	for (uint64_t i = 0; i < 2; i++) {
		story->addresses[0] += APART;
		block_run(story->block, &story->departure, &story->outcomes,
			  story->addresses, &story->rig->core, 1);
	}
	time = all_left(story->rig);
	drop_story(story);
	return time;
}

TEST(targets_of_jumps_are_waited_for)
{
	CHECK(about(jump_and_load(true), MEMORY, FEW));
	CHECK(about(jump_and_load(false), 2 * MEMORY + CYCLES(20), FEW));
}

TEST(targets_of_jumps_are_learnt)
{
	struct story *story = make_story();

	add(story, OP_INSTRUCTION, 0, 0, 0, 0);
	story->departure.indirect = true;
	story->departure.target = 0x5000;
	run(story);
	CHECK(!story->outcomes.target_predicted);
	for (int i = 0; i < 100; i++)
		run(story);
	CHECK(story->outcomes.target_predicted);
	story->departure.target = 0x6000;
	run(story);
	CHECK(!story->outcomes.target_predicted);
	drop_story(story);
}

CHECK_MAIN
