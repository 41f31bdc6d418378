/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "string_lines.h"

#include "timing/block.h"

#define LINE 64u
#define MOST_OPERANDS 2u

/* One line of each operand: what is stored comes from the load before it, if there is one. */
static struct block *line_of(const struct code_reference *references, unsigned operands)
{
	static union {
		struct block block;
		uint8_t bytes[sizeof(struct block) +
			      (1 + MOST_OPERANDS) * sizeof(struct operation)];
	} made;
	struct operation *op = made.block.operations;
	uint16_t value = 0;

	*op++ = (struct operation){ .kind = OP_INSTRUCTION };
	for (unsigned i = 0; i < operands; i++) {
		if (references[2 * i].kind == REFERENCE_LOAD) {
			*op++ = (struct operation){ .kind = OP_LOAD, .to = (uint16_t)(i + 1),
						    .b = (uint16_t)i };
			value = (uint16_t)(i + 1);
		} else {
			*op++ = (struct operation){ .kind = OP_STORE, .to = (uint16_t)i,
						    .b = value };
		}
	}
	made.block.count = made.block.capacity = (uint32_t)(op - made.block.operations);
	return &made.block;
}

/* The operands of the instruction whose first one is here. */
static unsigned operands_at(const struct code_block *code, unsigned index)
{
	const struct code_reference *first = &code->references[index];
	unsigned count = 0;

	while (count < MOST_OPERANDS && index + 2 * count + 1 < code->reference_count &&
	       first[2 * count].instruction == first->instruction &&
	       first[2 * count + 1].kind == REFERENCE_LENGTH)
		count++;
	return count;
}

static void run_lines(const struct block *line, const uint64_t *starts, unsigned operands,
		      uint64_t length, struct core *cores, uint32_t count)
{
	static const struct outcomes outcomes;		/* it has no branch */
	const struct departure departure = { .operations = line->count };
	uint64_t addresses[MOST_OPERANDS];

	for (uint64_t done = LINE; done < length; done += LINE) {
		for (unsigned i = 0; i < operands; i++)
			addresses[i] = starts[2 * i] + done;
		block_run(line, &departure, &outcomes, addresses, cores, count);
	}
}

void string_lines_run(const struct code_block *code, const uint64_t *addresses, struct core *cores,
		      uint32_t count)
{
	for (unsigned i = 0; i + 1 < code->reference_count; i++) {
		unsigned operands;

		if (code->references[i + 1].kind != REFERENCE_LENGTH)
			continue;
		operands = operands_at(code, i);
		run_lines(line_of(&code->references[i], operands), &addresses[i], operands,
			  addresses[i + 1], cores, count);
		i += 2 * operands - 1;
	}
}
