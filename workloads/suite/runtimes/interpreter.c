/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Run a program in an interpreter: how many prime factors have all numbers up
 * to the last one together?  It sieves the least factor of each in an array of
 * 64-bit cells, then divides by what it finds there.  Of its time, the greater
 * part goes to fetching instructions and jumping to what does them.
 */
#include "workload.h"

enum { SET, COPY, ADD, MULTIPLY, DIVIDE, LOAD, STORE, JUMP, IF_LESS, IF_ZERO, STOP };

struct instruction {
	uint8_t what;
	uint8_t a;
	uint8_t b;
	uint8_t c;
	int32_t value;		/* of SET; of jumps: where to go */
};

struct machine {
	uint64_t registers[16];
	uint64_t *heap;
	uint64_t cells;
};

/* What the registers hold. */
enum { LAST, P, SQUARE, K, X, FACTOR, COUNT, ZERO, ONE };

static const struct instruction factors[] = {
	{ SET, ZERO, 0, 0, 0 },
	{ SET, ONE, 0, 0, 1 },
	{ SET, K, 0, 0, 0 },
	/* 3: nothing is known of any number */
	{ STORE, K, ZERO, 0, 0 },
	{ ADD, K, K, ONE, 0 },
	{ IF_LESS, 0, K, LAST, 3 },
	{ STORE, LAST, ZERO, 0, 0 },
	{ SET, P, 0, 0, 2 },
	/* 8: the next p, up to the square root */
	{ MULTIPLY, SQUARE, P, P, 0 },
	{ IF_LESS, 0, LAST, SQUARE, 21 },
	{ LOAD, FACTOR, P, 0, 0 },
	{ IF_ZERO, 0, FACTOR, 0, 14 },
	/* 12: no prime, or done with it */
	{ ADD, P, P, ONE, 0 },
	{ JUMP, 0, 0, 0, 8 },
	/* 14: its multiples, from the square */
	{ COPY, K, SQUARE, 0, 0 },
	/* 15 */
	{ IF_LESS, 0, LAST, K, 12 },
	{ LOAD, FACTOR, K, 0, 0 },
	{ IF_LESS, 0, ZERO, FACTOR, 19 },
	{ STORE, K, P, 0, 0 },
	/* 19 */
	{ ADD, K, K, P, 0 },
	{ JUMP, 0, 0, 0, 15 },
	/* 21: divide each number */
	{ SET, COUNT, 0, 0, 0 },
	{ SET, P, 0, 0, 2 },
	/* 23 */
	{ IF_LESS, 0, LAST, P, 32 },
	{ COPY, X, P, 0, 0 },
	/* 25 */
	{ LOAD, FACTOR, X, 0, 0 },
	{ ADD, COUNT, COUNT, ONE, 0 },
	{ IF_ZERO, 0, FACTOR, 0, 30 },
	{ DIVIDE, X, X, FACTOR, 0 },
	{ JUMP, 0, 0, 0, 25 },
	/* 30: what is left is prime */
	{ ADD, P, P, ONE, 0 },
	{ JUMP, 0, 0, 0, 23 },
	/* 32 */
	{ STOP, 0, 0, 0, 0 },
};

static void out_of_heap(uint64_t cell)
{
	fprintf(stderr, "no such cell: %llu\n", (unsigned long long)cell);
	exit(1);
}

static void run(struct machine *machine, const struct instruction *program)
{
	uint64_t *r = machine->registers;

	for (const struct instruction *i = program;; i++) {
		switch (i->what) {
		case SET:
			r[i->a] = (uint64_t)i->value;
			break;
		case COPY:
			r[i->a] = r[i->b];
			break;
		case ADD:
			r[i->a] = r[i->b] + r[i->c];
			break;
		case MULTIPLY:
			r[i->a] = r[i->b] * r[i->c];
			break;
		case DIVIDE:
			r[i->a] = r[i->b] / r[i->c];
			break;
		case LOAD:
			if (r[i->b] >= machine->cells)
				out_of_heap(r[i->b]);
			r[i->a] = machine->heap[r[i->b]];
			break;
		case STORE:
			if (r[i->a] >= machine->cells)
				out_of_heap(r[i->a]);
			machine->heap[r[i->a]] = r[i->b];
			break;
		case JUMP:
			i = program + i->value - 1;
			break;
		case IF_LESS:
			if (r[i->b] < r[i->c])
				i = program + i->value - 1;
			break;
		case IF_ZERO:
			if (r[i->b] == 0)
				i = program + i->value - 1;
			break;
		default:
			return;
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t last = 18000000;
	const struct workload_option options[] = {
		{ "last", &last, 1, "number whose factors are counted" },
	};
	struct machine machine;

	(void)argc;
	WORKLOAD_PARSE(argv, "Interpret a program that counts prime factors.", options);
	memset(&machine, 0, sizeof(machine));
	if (last > UINT32_MAX) {
		fputs("--last is too large\n", stderr);
		return 2;
	}
	machine.cells = last + 1;
	machine.heap = workload_memory(machine.cells * sizeof(*machine.heap));
	machine.registers[LAST] = last;
	run(&machine, factors);
	free(machine.heap);
	return workload_finish(machine.registers[COUNT]);
}
