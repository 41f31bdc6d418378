/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "attribution.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address_map.h"
#include "mappings.h"
#include "table.h"

enum { DATA, FETCH, KINDS };

struct misses {
	uint64_t hits, walks;
};

/* Of a mapping in a window. */
struct memory_row {
	uint32_t window, mapping;
	struct misses misses[TLB_SIZES][KINDS];
	ticks waited[TLB_SIZES];
};

/* Of an instruction in a window. */
struct code_row {
	uint32_t window, mapping;
	uint64_t address;
	struct misses misses[TLB_SIZES][KINDS];
};

/* A mapping that missed in any window. */
struct known_mapping {
	pid_t pid;
	struct mapping mapping;		/* its name is its own */
};

#define NO_ROW SIZE_MAX

struct attribution {
	uint32_t window;
	pid_t pid;
	struct mappings mappings;	/* of the current copy */
	size_t *rows;			/* of each of these: its memory row, or NO_ROW */
	struct address_map code;	/* of the window: number of the row + 1, by instruction */
	struct known_mapping *known;
	size_t known_count, known_capacity;
	struct memory_row *memory;
	size_t memory_count, memory_capacity;
	struct code_row *instructions;
	size_t code_count, code_capacity;
	bool failed;			/* memory ran out: some misses are missing */
};

struct attribution *attribution_make(void)
{
	return calloc(1, sizeof(struct attribution));
}

static void forget_window(struct attribution *attribution)
{
	mappings_free(&attribution->mappings);
	free(attribution->rows);
	attribution->rows = NULL;
	address_map_clear(&attribution->code);
}

void attribution_free(struct attribution *attribution)
{
	if (!attribution)
		return;
	forget_window(attribution);
	address_map_free(&attribution->code);
	for (size_t i = 0; i < attribution->known_count; i++)
		free(attribution->known[i].mapping.name);
	free(attribution->known);
	free(attribution->memory);
	free(attribution->instructions);
	free(attribution);
}

int attribution_begin(struct attribution *attribution, const struct copy *copy, uint32_t window)
{
	forget_window(attribution);
	attribution->window = window;
	attribution->pid = copy->program;
	if (mappings_read(&attribution->mappings, copy->pid) < 0)
		return -1;
	attribution->rows = malloc((attribution->mappings.count + 1) * sizeof(*attribution->rows));
	if (!attribution->rows)
		return -1;
	for (size_t i = 0; i <= attribution->mappings.count; i++)
		attribution->rows[i] = NO_ROW;
	return 0;
}

void attribution_end(struct attribution *attribution)
{
	forget_window(attribution);
}

static void *grow(void *all, size_t count, size_t *capacity, size_t size)
{
	size_t larger = *capacity ? 2 * *capacity : 256;
	void *grown;

	if (count < *capacity)
		return all;
	grown = realloc(all, larger * size);
	if (grown)
		*capacity = larger;
	return grown;
}

static bool same(const struct mapping *one, const struct mapping *other)
{
	return one->start == other->start && one->end == other->end &&
	       one->offset == other->offset && one->inode == other->inode &&
	       one->major == other->major && one->minor == other->minor &&
	       one->writable == other->writable && one->executable == other->executable &&
	       one->shared == other->shared && strcmp(one->name, other->name) == 0;
}

/* Its number among all that missed; SIZE_MAX: memory ran out. */
static size_t know(struct attribution *attribution, const struct mapping *mapping)
{
	struct known_mapping *all;

	for (size_t i = 0; i < attribution->known_count; i++)
		if (attribution->known[i].pid == attribution->pid &&
		    same(&attribution->known[i].mapping, mapping))
			return i;
	all = grow(attribution->known, attribution->known_count, &attribution->known_capacity,
		   sizeof(*all));
	if (!all)
		return SIZE_MAX;
	attribution->known = all;
	all += attribution->known_count;
	all->pid = attribution->pid;
	all->mapping = *mapping;
	all->mapping.name = strdup(mapping->name);
	return all->mapping.name ? attribution->known_count++ : SIZE_MAX;
}

/* What was mapped there: nothing when the copy began, e.g. if it mapped it itself. */
static const struct mapping nothing = { .name = (char *)(uintptr_t)"" };

/* The window's row of the mapping that holds the address; NULL: memory ran out. */
static struct memory_row *memory_at(struct attribution *attribution, uint64_t address)
{
	const struct mapping *mapping = mappings_find(&attribution->mappings, address);
	const size_t index = mapping ? (size_t)(mapping - attribution->mappings.all) :
				       attribution->mappings.count;
	struct memory_row *all;
	size_t number;

	if (!attribution->rows)
		return NULL;
	if (attribution->rows[index] != NO_ROW)
		return &attribution->memory[attribution->rows[index]];
	number = know(attribution, mapping ? mapping : &nothing);
	all = grow(attribution->memory, attribution->memory_count, &attribution->memory_capacity,
		   sizeof(*all));
	if (!all || number == SIZE_MAX) {
		attribution->failed = true;
		return NULL;
	}
	attribution->memory = all;
	attribution->rows[index] = attribution->memory_count;
	all += attribution->memory_count++;
	*all = (struct memory_row){ .window = attribution->window, .mapping = (uint32_t)number };
	return all;
}

static struct code_row *code_at(struct attribution *attribution, uint64_t address)
{
	size_t number = (size_t)(uintptr_t)address_map_get(&attribution->code, address);
	const struct memory_row *in;
	struct code_row *all;

	if (number)
		return &attribution->instructions[number - 1];
	in = memory_at(attribution, address);
	all = grow(attribution->instructions, attribution->code_count, &attribution->code_capacity,
		   sizeof(*all));
	number = attribution->code_count + 1;
	if (!all || !in ||
	    address_map_set(&attribution->code, address, (void *)(uintptr_t)number) < 0) {
		attribution->failed = true;
		return NULL;
	}
	attribution->instructions = all;
	all += attribution->code_count++;
	*all = (struct code_row){ .window = attribution->window, .mapping = in->mapping,
				  .address = address };
	return all;
}

static void count(struct misses *misses, bool walk)
{
	misses->walks += walk;
	misses->hits += !walk;
}

void attribution_missed(struct attribution *attribution, enum tlb_size size, uint64_t address,
			enum tlb_side side, bool walk, uint64_t where)
{
	const unsigned kind = side == TLB_FETCH ? FETCH : DATA;
	struct memory_row *memory = memory_at(attribution, address);
	struct code_row *code;

	if (memory)
		count(&memory->misses[size][kind], walk);
	code = code_at(attribution, where);
	if (code)
		count(&code->misses[size][kind], walk);
}

void attribution_waited(struct attribution *attribution, enum tlb_size size, uint64_t address,
			ticks time)
{
	struct memory_row *memory = memory_at(attribution, address);

	if (memory)
		memory->waited[size] += time;
}

void attribution_executed(struct attribution *attribution, const struct code_block *block,
			  const uint64_t *addresses, uint64_t next)
{
	(void)attribution, (void)block, (void)addresses, (void)next;
}

static int open_table(struct table *table, const char *folder, const char *kind, uint32_t worker)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.%u.tsv", folder, kind, worker);
	return table_open(table, path, kind, 1);
}

/* A name may hold blanks: names are keys, mapping_0 and so on. */
static int write_mappings(const struct attribution *attribution, const char *folder,
			  uint32_t worker)
{
	struct table table;
	char key[32];

	if (open_table(&table, folder, "copy_mappings", worker) < 0)
		return -1;
	for (size_t i = 0; i < attribution->known_count; i++) {
		snprintf(key, sizeof(key), "mapping_%zu", i);
		table_key(&table, key, "%s", attribution->known[i].mapping.name);
	}
	table_columns(&table, "mapping pid start end offset major minor inode writable executable "
			      "shared");
	for (size_t i = 0; i < attribution->known_count; i++) {
		const struct mapping *mapping = &attribution->known[i].mapping;

		table_count(&table, i);
		table_count(&table, (uint64_t)attribution->known[i].pid);
		table_count(&table, mapping->start);
		table_count(&table, mapping->end);
		table_count(&table, mapping->offset);
		table_count(&table, mapping->major);
		table_count(&table, mapping->minor);
		table_count(&table, mapping->inode);
		table_word(&table, mapping->writable ? "yes" : "no");
		table_word(&table, mapping->executable ? "yes" : "no");
		table_word(&table, mapping->shared ? "yes" : "no");
	}
	return table_close(&table);
}

static void write_misses(struct table *table, const struct misses misses[TLB_SIZES][KINDS])
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int size = 0; size < TLB_SIZES; size++) {
			table_count(table, misses[size][kind].hits);
			table_count(table, misses[size][kind].walks);
		}
}

#define MISSES "base_data_hits base_data_walks huge_data_hits huge_data_walks " \
	       "base_fetch_hits base_fetch_walks huge_fetch_hits huge_fetch_walks"

static int write_memory(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	struct table table;

	if (open_table(&table, folder, "copy_memory", worker) < 0)
		return -1;
	table_columns(&table, "window mapping " MISSES " base_waited_cycles huge_waited_cycles");
	for (size_t i = 0; i < attribution->memory_count; i++) {
		const struct memory_row *row = &attribution->memory[i];

		table_count(&table, row->window);
		table_count(&table, row->mapping);
		write_misses(&table, row->misses);
		for (int size = 0; size < TLB_SIZES; size++)
			table_count(&table, row->waited[size] / TICKS_PER_CYCLE);
	}
	return table_close(&table);
}

static int write_code(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	struct table table;

	if (open_table(&table, folder, "copy_code", worker) < 0)
		return -1;
	table_columns(&table, "window mapping address " MISSES);
	for (size_t i = 0; i < attribution->code_count; i++) {
		const struct code_row *row = &attribution->instructions[i];

		table_count(&table, row->window);
		table_count(&table, row->mapping);
		table_count(&table, row->address);
		write_misses(&table, row->misses);
	}
	return table_close(&table);
}

int attribution_write(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	if (attribution->failed) {
		errno = ENOMEM;
		return -1;
	}
	if (write_mappings(attribution, folder, worker) < 0 ||
	    write_memory(attribution, folder, worker) < 0)
		return -1;
	return write_code(attribution, folder, worker);
}
