/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ask a table that is stored by columns.  Names of customers are numbers in a
 * dictionary of texts, which are packed into as few bits as they need.  Each
 * question looks through the dictionary, reads the columns in order, and adds up
 * what fits by customer.
 */
#include "workload.h"

#define DAYS 1000u
#define NAME_BYTES 16u

struct table {
	uint64_t rows;
	uint64_t names;
	unsigned bits;		/* of one number in "packed" */
	char (*dictionary)[NAME_BYTES];
	uint64_t *packed;	/* numbers of names */
	uint16_t *days;
	uint32_t *amounts;
};

/* What a question needs for each name. */
struct answer {
	unsigned char *wanted;
	uint64_t *totals;
};

static void put_code(struct table *table, uint64_t row, uint64_t code)
{
	uint64_t at = row * table->bits;
	unsigned shift = at % 64;

	table->packed[at / 64] |= code << shift;
	if (shift + table->bits > 64)
		table->packed[at / 64 + 1] |= code >> (64 - shift);
}

static uint64_t code_of(const struct table *table, uint64_t row)
{
	uint64_t at = row * table->bits;
	unsigned shift = at % 64;
	uint64_t code = table->packed[at / 64] >> shift;

	if (shift + table->bits > 64)
		code |= table->packed[at / 64 + 1] << (64 - shift);
	return code & ((UINT64_C(1) << table->bits) - 1);
}

static void make_table(struct table *table, uint64_t *state)
{
	uint64_t words;

	table->bits = 1;
	while (table->names > UINT64_C(1) << table->bits)
		table->bits++;
	words = table->rows * table->bits / 64 + 1;
	table->dictionary = workload_memory(table->names * sizeof(*table->dictionary));
	table->packed = workload_memory(words * sizeof(*table->packed));
	table->days = workload_memory(table->rows * sizeof(*table->days));
	table->amounts = workload_memory(table->rows * sizeof(*table->amounts));
	for (uint64_t i = 0; i < table->names; i++) {
		uint64_t random = workload_random(state);

		for (unsigned j = 0; j < NAME_BYTES; j++)
			table->dictionary[i][j] = (char)('a' + (random >> 4 * j & 15));
	}
	memset(table->packed, 0, words * sizeof(*table->packed));
	for (uint64_t row = 0; row < table->rows; row++) {
		uint64_t random = workload_random(state);
		uint64_t below = 1 + workload_below(random, table->names);

		/* Some customers buy often. */
		put_code(table, row, workload_below(random << 32, below));
		/* Rows came day by day, but a few late. */
		table->days[row] = (uint16_t)(row * DAYS / table->rows);
		if (!(random & 63))
			table->days[row] = (uint16_t)workload_below(random << 16, DAYS);
		table->amounts[row] = (uint32_t)(random >> 8 & 0xffff);
	}
}

/* Of some days, what customers whose names begin with a letter paid, and who paid most. */
static uint64_t ask(const struct table *table, struct answer *answer, char letter,
		    unsigned first_day, unsigned last_day)
{
	uint64_t sum = 0, rows = 0, best = 0;

	for (uint64_t i = 0; i < table->names; i++) {
		answer->wanted[i] = table->dictionary[i][0] == letter;
		answer->totals[i] = 0;
	}
	for (uint64_t row = 0; row < table->rows; row++) {
		uint64_t code;

		if (table->days[row] < first_day || table->days[row] > last_day)
			continue;
		code = code_of(table, row);
		if (!answer->wanted[code])
			continue;
		rows++;
		answer->totals[code] += table->amounts[row];
	}
	for (uint64_t i = 0; i < table->names; i++) {
		sum += answer->totals[i];
		if (answer->totals[i] > answer->totals[best])
			best = i;
	}
	sum = sum * 31 + rows;
	for (unsigned i = 0; i < NAME_BYTES; i++)
		sum = sum * 31 + (unsigned char)table->dictionary[best][i];
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rows = 60000000, names = 500000, count = 6, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "questions" },
		{ "names", &names, 1, "of the dictionary" },
		{ "rows", &rows, 1, "of the table" },
		{ "seed", &seed, 0, "of the table" },
	};
	struct answer answer;
	struct table table;

	(void)argc;
	WORKLOAD_PARSE(argv, "Ask a table that is stored by columns.", options);
	if (names > UINT32_MAX || rows > UINT32_MAX) {
		fputs("--names and --rows must be below 4G\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	table.rows = rows;
	table.names = names;
	make_table(&table, &state);
	answer.wanted = workload_memory(names);
	answer.totals = workload_memory(names * sizeof(*answer.totals));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t random = workload_random(&state);
		unsigned first = (unsigned)workload_below(random, DAYS);
		unsigned last = first + (unsigned)workload_below(random << 32, DAYS);

		sum = sum * 31 + ask(&table, &answer, (char)('a' + (random & 15)), first, last);
	}
	free(answer.wanted);
	free(answer.totals);
	free(table.dictionary);
	free(table.packed);
	free(table.days);
	free(table.amounts);
	return workload_finish(sum);
}
