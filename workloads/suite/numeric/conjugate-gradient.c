/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How warm is a room whose walls are cold?  The conjugate gradients solve the
 * equations of a cube's cells: the matrix is stored as any sparse one would be,
 * columns and values row by row, and read in order each time; of the vectors,
 * each row needs three planes.
 */
#include "workload.h"

#define NEIGHBOURS 7u

struct matrix {
	uint64_t rows;
	uint64_t *begin;	/* of each row, and the end of the last */
	uint32_t *column;
	double *value;
};

/* A cell loses warmth to its six neighbours or to walls. */
static void make_matrix(struct matrix *m, uint64_t n)
{
	uint64_t k = 0, row = 0;

	for (uint64_t z = 0; z < n; z++)
		for (uint64_t y = 0; y < n; y++)
			for (uint64_t x = 0; x < n; x++, row++) {
				const uint64_t cells[NEIGHBOURS] = {
					row - n * n, row - n, row - 1, row, row + 1, row + n, row + n * n
				};
				const int inside[NEIGHBOURS] = {
					z > 0, y > 0, x > 0, 1, x < n - 1, y < n - 1, z < n - 1
				};

				m->begin[row] = k;
				for (unsigned i = 0; i < NEIGHBOURS; i++) {
					if (!inside[i])
						continue;
					m->column[k] = (uint32_t)cells[i];
					m->value[k++] = cells[i] == row ? 6 : -1;
				}
			}
	m->begin[row] = k;
}

static void multiply(const struct matrix *m, const double *x, double *result)
{
	for (uint64_t row = 0; row < m->rows; row++) {
		double sum = 0;

		for (uint64_t k = m->begin[row]; k < m->begin[row + 1]; k++)
			sum += m->value[k] * x[m->column[k]];
		result[row] = sum;
	}
}

static double dot(const double *a, const double *b, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* Start from zero; the squares of what is left after these rounds. */
static double solve(const struct matrix *m, double *x, double *rest, double *way, double *image,
		    uint64_t rounds)
{
	double left = dot(rest, rest, m->rows);

	for (uint64_t i = 0; i < m->rows; i++) {
		x[i] = 0;
		way[i] = rest[i];
	}
	for (; rounds > 0 && left > 0; rounds--) {
		double step, before = left;

		multiply(m, way, image);
		step = left / dot(way, image, m->rows);
		for (uint64_t i = 0; i < m->rows; i++) {
			x[i] += step * way[i];
			rest[i] -= step * image[i];
		}
		left = dot(rest, rest, m->rows);
		for (uint64_t i = 0; i < m->rows; i++)
			way[i] = rest[i] + left / before * way[i];
	}
	return left;
}

int main(int argc, char **argv)
{
	uint64_t order = 128, rounds = 45, seed = 1, state, bits;
	const struct workload_option options[] = {
		{ "order", &order, 1, "cells along each edge" },
		{ "rounds", &rounds, 0, "at most" },
		{ "seed", &seed, 0, "of where it is heated" },
	};
	struct matrix m;
	double *vectors, *x, *rest, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Solve a sparse system by conjugate gradients.", options);
	if (order > 1000) {
		fputs("--order must be at most 1000\n", stderr);
		return 2;
	}
	m.rows = order * order * order;
	m.begin = workload_memory((m.rows + 1) * sizeof(*m.begin));
	m.column = workload_memory(m.rows * NEIGHBOURS * sizeof(*m.column));
	m.value = workload_memory(m.rows * NEIGHBOURS * sizeof(*m.value));
	vectors = workload_memory(4 * m.rows * sizeof(*vectors));
	x = vectors;
	rest = vectors + m.rows;
	make_matrix(&m, order);
	state = workload_seed(seed);
	for (uint64_t i = 0; i < m.rows; i++)
		rest[i] = (double)workload_below(workload_random(&state), 100);
	solve(&m, x, rest, vectors + 2 * m.rows, vectors + 3 * m.rows, rounds);
	for (uint64_t i = 0; i < m.rows; i++)
		sum += x[i];
	memcpy(&bits, &sum, sizeof(bits));
	free(vectors);
	free(m.value);
	free(m.column);
	free(m.begin);
	return workload_finish(bits);
}
