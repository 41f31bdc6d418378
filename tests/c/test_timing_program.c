/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Blocks of operations, as an engine makes them, on a core. */
#include "timing.h"
#include "timing/program.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
#define FEW CYCLES(4)
#define APART (BASE_PAGE + 64)
#define MOST_OPERATIONS 32u

/* A block and the core that it runs on. */
struct block {
	struct rig *rig;
	struct program *program;
	struct branches branches;
	struct departure departure;
	struct outcomes outcomes;
	uint64_t addresses[8];
};

static struct block *make_block(void)
{
	struct timing_config config = plain_config();
	struct block *block = calloc(1, sizeof(*block));

	block->rig = make_rig(&config, false);
	block->program = calloc(1, sizeof(*block->program) +
				   MOST_OPERATIONS * sizeof(struct operation));
	block->program->capacity = MOST_OPERATIONS;
	branches_init(&block->branches);
	return block;
}

static void drop_block(struct block *block)
{
	drop_rig(block->rig);
	free(block->program);
	free(block);
}

static void add(struct block *block, enum operation_kind kind, int to, int a,
		int b, int cycles)
{
	block->program->operations[block->program->count++] = (struct operation){
		(uint8_t)kind, (uint8_t)cycles, (uint16_t)to, (uint16_t)a,
		(uint16_t)b
	};
	block->departure.operations = block->program->count;
}

static void run(struct block *block)
{
	program_predict(block->program, &block->departure, &block->branches,
			&block->outcomes);
	program_run(block->program, &block->departure, &block->outcomes,
		    block->addresses, &block->rig->core, 1);
}

static void values_are_joined(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_JOIN, 1, 0, 0, 5);
	add(block, OP_JOIN, 2, 0, 0, 70);
	add(block, OP_JOIN, 3, 1, 2, 3);
	add(block, OP_JOIN, 4, 3, 1, 0);
	add(block, OP_PUT, 10, 4, 1, 0);
	run(block);
	CHECK_EQUAL(block->rig->core.registers[10], CYCLES(73));
	/* The instruction is done when its results are. */
	CHECK(about(all_left(block->rig), CYCLES(73), FEW));
	drop_block(block);
}

static void registers_are_put_and_got(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_GET, 1, 20, 0, 0);
	add(block, OP_JOIN, 2, 1, 0, 10);
	add(block, OP_PUT, 20, 2, 4, 0);
	for (int i = 0; i < 50; i++)
		run(block);
	/* Each run's sum waits for the one before. */
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(block->rig->core.registers[20 + i], CYCLES(500));
	CHECK_EQUAL(block->rig->core.registers[19], 0);
	CHECK_EQUAL(block->rig->core.registers[24], 0);
	CHECK(about(all_left(block->rig), CYCLES(500), FEW));
	drop_block(block);
}

/* A load whose address is in a register, and whose value goes to one. */
static ticks chase(int from, int to)
{
	struct block *block = make_block();
	ticks time;

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_GET, 1, from, 0, 0);
	add(block, OP_LOAD, 2, 1, 3, 0);
	add(block, OP_PUT, to, 2, 1, 0);
	for (uint64_t i = 0; i < 16; i++) {
		block->addresses[3] = 4096 + i * APART;
		run(block);
	}
	time = all_left(block->rig);
	drop_block(block);
	return time;
}

static void loads_depend_by_registers(void)
{
	CHECK(about(chase(5, 5), 16 * MEMORY, FEW));
	CHECK(about(chase(5, 6), MEMORY, FEW + CYCLES(16)));
}

static void references_that_were_not_made_take_no_time(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_JOIN, 1, 0, 0, 9);
	add(block, OP_LOAD, 2, 1, 0, 0);
	add(block, OP_STORE, 1, 0, 2, 0);
	add(block, OP_PUT, 7, 2, 1, 0);
	/* Its value is there when the condition is. */
	run(block);
	CHECK_EQUAL(block->rig->core.registers[7], CYCLES(9));
	CHECK_EQUAL(block->rig->core.stores, 0);
	block->addresses[0] = 4096;
	run(block);
	CHECK(about(block->rig->core.registers[7], CYCLES(9) + MEMORY, FEW));
	CHECK_EQUAL(block->rig->core.stores, 0);
	block->addresses[1] = 8192;
	run(block);
	CHECK_EQUAL(block->rig->core.stores, 1);
	drop_block(block);
}

static void stores_take_values_to_loads(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_JOIN, 1, 0, 0, 60);
	add(block, OP_STORE, 0, 0, 1, 0);
	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_LOAD, 2, 0, 1, 0);
	add(block, OP_PUT, 7, 2, 1, 0);
	block->addresses[0] = block->addresses[1] = 4096;
	run(block);
	CHECK_EQUAL(block->rig->core.registers[7], CYCLES(60) + L1);
	drop_block(block);
}

static void fences_give_values(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_STORE, 0, 0, 0, 0);
	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_FENCE, 1, 0, 0, 0);
	add(block, OP_PUT, 7, 1, 1, 0);
	block->addresses[0] = 4096;
	run(block);
	CHECK(about(block->rig->core.registers[7], MEMORY, FEW));
	drop_block(block);
}

static void what_was_not_executed_does_not_count(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_BRANCH, 0, 0, 0, 0);
	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_LOAD, 1, 0, 0, 0);
	add(block, OP_PUT, 7, 1, 1, 0);
	block->addresses[0] = 4096;
	block->departure = (struct departure){ .operations = 2, .branches = 1, .taken = true };
	run(block);
	CHECK_EQUAL(block->rig->core.window_place, 1);
	CHECK_EQUAL(block->rig->core.registers[7], 0);
	CHECK(all_left(block->rig) < MEMORY);
	drop_block(block);
}

/* All but the last branch of a block fell through. */
static void branches_are_learnt(void)
{
	struct block *block = make_block();
	int wrong = 0;

	for (int branch = 0; branch < 2; branch++) {
		add(block, OP_INSTRUCTION, 0, 0, 0, 0);
		add(block, OP_BRANCH, 0, 0, branch, 0);
	}
	block->departure.branches = 2;
	block->departure.taken = true;
	for (int i = 0; i < 200; i++) {
		run(block);
		if (i >= 100)
			wrong += !block->outcomes.predicted[0] +
				 !block->outcomes.predicted[1];
	}
	CHECK_EQUAL(wrong, 0);
	CHECK(block->outcomes.target_predicted);
	/* Now it goes the other way. */
	block->departure.branches = 1;
	block->departure.operations = 2;
	run(block);
	CHECK(!block->outcomes.predicted[0]);
	drop_block(block);
}

/* What a jump to a value that comes from memory costs the load behind it. */
static ticks jump_and_load(bool known)
{
	struct block *block = make_block();
	ticks time;

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	add(block, OP_LOAD, 1, 0, 0, 0);
	block->departure.indirect = true;
	block->departure.target_value = 1;
	block->addresses[0] = 4096;
	block->outcomes.target_predicted = known;
	for (uint64_t i = 0; i < 2; i++) {
		block->addresses[0] += APART;
		program_run(block->program, &block->departure, &block->outcomes,
			    block->addresses, &block->rig->core, 1);
	}
	time = all_left(block->rig);
	drop_block(block);
	return time;
}

static void targets_of_jumps_are_waited_for(void)
{
	CHECK(about(jump_and_load(true), MEMORY, FEW));
	CHECK(about(jump_and_load(false), 2 * MEMORY + CYCLES(20), FEW));
}

static void targets_of_jumps_are_learnt(void)
{
	struct block *block = make_block();

	add(block, OP_INSTRUCTION, 0, 0, 0, 0);
	block->departure.indirect = true;
	block->departure.target = 0x5000;
	run(block);
	CHECK(!block->outcomes.target_predicted);
	for (int i = 0; i < 100; i++)
		run(block);
	CHECK(block->outcomes.target_predicted);
	block->departure.target = 0x6000;
	run(block);
	CHECK(!block->outcomes.target_predicted);
	drop_block(block);
}

static const struct check_test tests[] = {
	{ "values are joined", values_are_joined },
	{ "registers are put and got", registers_are_put_and_got },
	{ "loads depend by registers", loads_depend_by_registers },
	{ "references that were not made take no time",
	  references_that_were_not_made_take_no_time },
	{ "stores take values to loads", stores_take_values_to_loads },
	{ "fences give values", fences_give_values },
	{ "what was not executed does not count", what_was_not_executed_does_not_count },
	{ "branches are learnt", branches_are_learnt },
	{ "targets of jumps are waited for", targets_of_jumps_are_waited_for },
	{ "targets of jumps are learnt", targets_of_jumps_are_learnt },
};

CHECK_MAIN(tests)
