/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Multiply two sparse matrices, row by row: each element of a row of the first
 * asks for a short row of the second, anywhere in it, whose elements are added
 * up in a row with all columns.  Of the product only a sum for each row is kept.
 */
#include "workload.h"

struct matrix {
	uint64_t *starts;	/* of rows, and the end of the last one */
	uint32_t *columns;
	double *values;		/* small whole numbers: sums are exact */
};

static struct matrix make_matrix(uint64_t rows, uint64_t elements, uint64_t *state)
{
	struct matrix matrix;
	uint64_t most = rows * (2 * elements - 1), n = 0;

	matrix.starts = workload_memory((rows + 1) * sizeof(*matrix.starts));
	matrix.columns = workload_memory(most * sizeof(*matrix.columns));
	matrix.values = workload_memory(most * sizeof(*matrix.values));
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t of_row = workload_below(workload_random(state), 2 * elements);

		matrix.starts[row] = n;
		for (; of_row; of_row--, n++) {
			uint64_t random = workload_random(state);

			matrix.columns[n] = (uint32_t)workload_below(random, rows);
			matrix.values[n] = (double)(random & 15) - 7;
		}
	}
	matrix.starts[rows] = n;
	return matrix;
}

static void free_matrix(struct matrix *matrix)
{
	free(matrix->starts);
	free(matrix->columns);
	free(matrix->values);
}

/* Where a row of the product is made. */
struct sums {
	double *sums;		/* of each column; all 0 between rows */
	uint32_t *last;		/* the row, from 1, that had a column last */
	uint32_t *columns;	/* that this row has */
	uint64_t n;
};

static void add_row(struct sums *sums, const struct matrix *second, uint64_t row, double factor,
		    uint32_t mark)
{
	for (uint64_t i = second->starts[row]; i < second->starts[row + 1]; i++) {
		uint32_t column = second->columns[i];

		if (sums->last[column] != mark) {
			sums->last[column] = mark;
			sums->columns[sums->n++] = column;
		}
		sums->sums[column] += factor * second->values[i];
	}
}

/* Squares of the row's elements, each with a factor of its column; clears them. */
static double finish_row(struct sums *sums)
{
	double result = 0;

	for (uint64_t i = 0; i < sums->n; i++) {
		uint32_t column = sums->columns[i];
		double value = sums->sums[column];

		result += value * value * (1 + column % 7);
		sums->sums[column] = 0;
	}
	sums->n = 0;
	return result;
}

int main(int argc, char **argv)
{
	uint64_t rows = 2000000, elements = 4, seed = 1, state, checksum = 0;
	const struct workload_option options[] = {
		{ "elements", &elements, 1, "of a row, on average; some have none" },
		{ "rows", &rows, 1, "of each matrix, and columns" },
		{ "seed", &seed, 0, "of the matrices" },
	};
	struct matrix first, second;
	struct sums sums = { 0 };

	(void)argc;
	WORKLOAD_PARSE(argv, "Multiply two sparse matrices.", options);
	if (rows >= UINT32_MAX || elements > 1000) {
		fputs("--rows must be below 4G, and --elements at most 1000\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	first = make_matrix(rows, elements, &state);
	second = make_matrix(rows, elements, &state);
	sums.sums = workload_memory(rows * sizeof(*sums.sums));
	sums.last = workload_memory(rows * sizeof(*sums.last));
	sums.columns = workload_memory(rows * sizeof(*sums.columns));
	memset(sums.last, 0, rows * sizeof(*sums.last));
	for (uint64_t i = 0; i < rows; i++)
		sums.sums[i] = 0;
	for (uint64_t row = 0; row < rows; row++) {
		for (uint64_t i = first.starts[row]; i < first.starts[row + 1]; i++)
			add_row(&sums, &second, first.columns[i], first.values[i],
				(uint32_t)row + 1);
		checksum = checksum * 31 + sums.n;
		checksum = checksum * 31 + (uint64_t)finish_row(&sums);
	}
	free_matrix(&first);
	free_matrix(&second);
	free(sums.sums);
	free(sums.last);
	free(sums.columns);
	return workload_finish(checksum);
}
