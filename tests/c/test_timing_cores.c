/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several cores that take a block's operations together: each is as if alone. */
#include "timing.h"
#include "timing/block.h"

#define APART (BASE_PAGE + 64)

/* A load, a branch on it, one at the address that it gives, and a store. */
static const struct operation chase[] = {
	{ OP_INSTRUCTION, 0, 0, 0, 0 }, { OP_LOAD, 0, 1, 0, 0 },
	{ OP_BRANCH, 0, 0, 1, 0 },	{ OP_INSTRUCTION, 0, 0, 0, 0 },
	{ OP_LOAD, 0, 2, 1, 1 },	{ OP_STORE, 0, 2, 2, 1 },
	{ OP_JOIN, 3, 3, 2, 0 },	{ OP_FENCE, 0, 4, 0, 0 },
	{ OP_PUT, 0, 7, 3, 1 },
};
#define OPERATIONS (sizeof(chase) / sizeof(chase[0]))

static struct block *make_block(void)
{
	struct block *block = malloc(sizeof(*block) + sizeof(chase));

	block->count = block->capacity = OPERATIONS;
	for (size_t i = 0; i < OPERATIONS; i++)
		block->operations[i] = chase[i];
	return block;
}

static void run(const struct block *block, bool predicted,
		struct core *cores, uint32_t count)
{
	static const uint64_t addresses[] = { APART, 2 * APART, 3 * APART };
	const struct departure departure = {
		.operations = OPERATIONS, .branches = 1
	};
	struct outcomes outcomes = {
		.predicted = { predicted }, .target_predicted = true
	};

	block_run(block, &departure, &outcomes, addresses, cores, count);
}

/* The rig's core next to another one; its caches remain the rig's. */
static void move(struct core *to, const struct rig *rig)
{
	*to = rig->core;
	to->translation.memory = &to->memory;
}

static ticks left(struct core *core)
{
	core_instruction(core);
	return core->retired;
}

static void check_cores(bool predicted)
{
	struct timing_config config = plain_config();
	struct block *block = make_block();
	struct core *both = calloc(2, sizeof(*both));
	struct rig *alone[2], *moved[2];

	for (uint32_t i = 0; i < 2; i++) {
		alone[i] = make_rig(&config, false);
		moved[i] = make_rig(&config, false);
		move(&both[i], moved[i]);
	}
	/* One of them walks. */
	translation_missed(&both[0].translation, APART, MISS_WALK);
	translation_missed(&alone[0]->core.translation, APART, MISS_WALK);
	/* Alone first: what that leaves is of no matter to both. */
	for (uint32_t i = 0; i < 2; i++)
		run(block, predicted, &alone[i]->core, 1);
	run(block, predicted, both, 2);
	CHECK(both[0].registers[7] > both[1].registers[7]);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_EQUAL(both[i].registers[7], alone[i]->core.registers[7]);
		CHECK_EQUAL(left(&both[i]), left(&alone[i]->core));
		drop_rig(alone[i]);
		drop_rig(moved[i]);
	}
	free(both);
	free(block);
}

TEST(several_cores_are_as_each_alone)
{
	check_cores(true);
}

TEST(also_after_a_branch_that_was_not_predicted)
{
	check_cores(false);
}

CHECK_MAIN
