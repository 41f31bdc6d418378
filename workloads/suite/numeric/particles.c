/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Let particles push each other away.  Each round sorts them by cells of a grid
 * over a box without borders, so that those near each one are in its own cell
 * and in the 26 around it, one after the other in memory.  Places are whole
 * numbers: what forces come to does not depend on the order of particles.
 */
#include "workload.h"

#define CELL 1024		/* the length of a cell's edge, and how far a force reaches */
#define SLOWEST 65536		/* of a force, what changes a speed by one */

struct particle {
	int32_t place[3];
	int32_t speed[3];
};

struct box {
	struct particle *particles;
	struct particle *sorted;	/* by cells */
	uint32_t *starts;		/* of cells, and the end of the last one */
	uint64_t n;
	uint64_t edge;			/* cells of each edge, at least 3 */
};

static uint64_t cell_of(const struct box *box, const struct particle *particle)
{
	uint64_t cell = 0;

	for (unsigned i = 0; i < 3; i++)
		cell = cell * box->edge + (uint64_t)(particle->place[i] / CELL);
	return cell;
}

static void sort_by_cells(struct box *box)
{
	uint64_t cells = box->edge * box->edge * box->edge;
	uint32_t sum = 0;

	memset(box->starts, 0, (cells + 1) * sizeof(*box->starts));
	for (uint64_t i = 0; i < box->n; i++)
		box->starts[cell_of(box, &box->particles[i])]++;
	for (uint64_t i = 0; i <= cells; i++) {
		sum += box->starts[i];
		box->starts[i] = sum;
	}
	/* Each start is the cell's end until all of its particles are there. */
	for (uint64_t i = box->n; i-- > 0;)
		box->sorted[--box->starts[cell_of(box, &box->particles[i])]] = box->particles[i];
}

/* The shorter way between two places of an edge. */
static int32_t shorter(int32_t way, int32_t length)
{
	if (way > length / 2)
		return way - length;
	return way < -(length / 2) ? way + length : way;
}

/* The nearer, the stronger; none of a particle on itself. */
static void add_force(const struct box *box, const struct particle *on,
		      const struct particle *of, int64_t *force)
{
	int32_t length = (int32_t)box->edge * CELL;
	int64_t way[3], square = 0;

	for (unsigned i = 0; i < 3; i++) {
		way[i] = shorter(on->place[i] - of->place[i], length);
		square += way[i] * way[i];
	}
	if (square >= (int64_t)CELL * CELL)
		return;
	for (unsigned i = 0; i < 3; i++)
		force[i] += way[i] * (CELL - square / CELL);
}

static void move(const struct box *box, struct particle *particle, const int64_t *force)
{
	int32_t length = (int32_t)box->edge * CELL;

	for (unsigned i = 0; i < 3; i++) {
		int32_t place;

		particle->speed[i] += (int32_t)(force[i] / SLOWEST);
		place = (particle->place[i] + particle->speed[i]) % length;
		particle->place[i] = place < 0 ? place + length : place;
	}
}

static void forces_of_cell(const struct box *box, const struct particle *particle, int64_t *force)
{
	uint64_t edge = box->edge, at[3];

	for (unsigned i = 0; i < 3; i++)
		at[i] = (uint64_t)(particle->place[i] / CELL);
	for (uint64_t x = at[0] + edge - 1; x <= at[0] + edge + 1; x++) {
		for (uint64_t y = at[1] + edge - 1; y <= at[1] + edge + 1; y++) {
			for (uint64_t z = at[2] + edge - 1; z <= at[2] + edge + 1; z++) {
				uint64_t cell = (x % edge * edge + y % edge) * edge + z % edge;

				for (uint32_t i = box->starts[cell]; i < box->starts[cell + 1]; i++)
					add_force(box, particle, &box->sorted[i], force);
			}
		}
	}
}

static void step(struct box *box)
{
	sort_by_cells(box);
	for (uint64_t i = 0; i < box->n; i++) {
		int64_t force[3] = { 0 };

		box->particles[i] = box->sorted[i];
		forces_of_cell(box, &box->sorted[i], force);
		move(box, &box->particles[i], force);
	}
}

int main(int argc, char **argv)
{
	uint64_t n = 1000000, edge = 80, rounds = 3, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "edge", &edge, 3, "of the box in cells" },
		{ "particles", &n, 1, "in the box" },
		{ "rounds", &rounds, 0, "in which all move" },
		{ "seed", &seed, 0, "of their places" },
	};
	struct box box;

	(void)argc;
	WORKLOAD_PARSE(argv, "Let particles push each other away.", options);
	if (edge > 1024 || n > UINT32_MAX) {
		fputs("--edge must be at most 1024, and --particles below 4G\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	box.n = n;
	box.edge = edge;
	box.particles = workload_memory(n * sizeof(*box.particles));
	box.sorted = workload_memory(n * sizeof(*box.sorted));
	box.starts = workload_memory((edge * edge * edge + 1) * sizeof(*box.starts));
	for (uint64_t i = 0; i < n; i++) {
		for (unsigned j = 0; j < 3; j++) {
			uint64_t random = workload_random(&state);

			box.particles[i].place[j] = (int32_t)workload_below(random, edge * CELL);
			box.particles[i].speed[j] = (int32_t)(random & 127) - 64;
		}
	}
	for (uint64_t i = 0; i < rounds; i++)
		step(&box);
	/* Whatever the order. */
	for (uint64_t i = 0; i < n; i++) {
		uint64_t key = 0;

		for (unsigned j = 0; j < 3; j++) {
			key = key * 1000003 + (uint64_t)box.particles[i].place[j];
			key = key * 1000003 + (uint64_t)(int64_t)box.particles[i].speed[j];
		}
		sum += key * key;
	}
	free(box.particles);
	free(box.sorted);
	free(box.starts);
	return workload_finish(sum);
}
