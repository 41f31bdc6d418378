/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "attribution.h"
#include "attribution_rows.h"
#include "table.h"

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
		const struct copy_mapping *mapping = &attribution->known[i].mapping;

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

static int write_blocks(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	struct table table;

	if (open_table(&table, folder, "copy_blocks", worker) < 0)
		return -1;
	table_columns(&table, "window address resident_bytes base_walks huge_walks");
	for (size_t i = 0; i < attribution->block_count; i++) {
		const struct block_row *row = &attribution->blocks[i];

		table_count(&table, row->window);
		table_count(&table, row->address);
		if (row->resident_bytes == UINT64_MAX)
			table_na(&table);
		else
			table_count(&table, row->resident_bytes);
		table_count(&table, row->walks[TLB_BASE]);
		table_count(&table, row->walks[TLB_HUGE]);
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

static int write_stacks(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	const struct stacks *stacks = &attribution->stacks;
	struct table table;

	if (open_table(&table, folder, "copy_stacks", worker) < 0)
		return -1;
	table_columns(&table, "window stack address base_walks huge_walks");
	for (size_t i = 0; i < stacks->row_count; i++) {
		const struct stack_row *row = &stacks->rows[i];

		table_count(&table, row->window);
		table_count(&table, row->stack);
		table_count(&table, row->address);
		table_count(&table, row->walks[TLB_BASE]);
		table_count(&table, row->walks[TLB_HUGE]);
	}
	return table_close(&table);
}

static int write_frames(const struct attribution *attribution, const char *folder, uint32_t worker)
{
	const struct stacks *stacks = &attribution->stacks;
	struct table table;

	if (open_table(&table, folder, "copy_frames", worker) < 0)
		return -1;
	table_columns(&table, "stack below mapping address");
	for (size_t i = NO_STACK + 1; i < stacks->node_count; i++) {
		const struct stack_node *node = &stacks->nodes[i];

		table_count(&table, i);
		table_count(&table, node->below);
		table_count(&table, node->mapping);
		table_count(&table, node->address);
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
	    write_memory(attribution, folder, worker) < 0 ||
	    write_blocks(attribution, folder, worker) < 0 ||
	    write_code(attribution, folder, worker) < 0 ||
	    write_stacks(attribution, folder, worker) < 0)
		return -1;
	return write_frames(attribution, folder, worker);
}
