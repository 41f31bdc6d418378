/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "attribution.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attribution_rows.h"
#include "copy.h"

struct found {
	uint64_t *addresses;
	unsigned count, room, frames;
};

static int each_frame(Dwfl_Frame *frame, void *argument)
{
	struct found *found = argument;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL) || !pc)
		return DWARF_CB_ABORT;
	/* The first one is where it is, not where it returns to. */
	if (found->frames++ && found->count < found->room)
		found->addresses[found->count++] = pc;
	return found->count < found->room ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* Debug information may be far away, on a server even: code has its own unwind tables. */
static int no_debug_information(Dwfl_Module *module, void **data, const char *name,
				Dwarf_Addr base, const char *file, const char *link,
				GElf_Word crc, char **path)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
	*path = NULL;
	return -1;
}

/*
 * Return addresses of a taken copy, which has not run yet, innermost first; as many as there is
 * room for.  By unwind tables of the files' code, and by frame pointers where there are none; no
 * file next to these is looked for.  Returns their number; 0 if nothing is known.
 */
static unsigned unwind(const struct copy *copy, uint64_t *addresses, unsigned room)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debug_information,
	};
	struct found found = { .addresses = addresses, .room = room };
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (!dwfl)
		return 0;
	if (dwfl_linux_proc_report(dwfl, copy->pid) == 0 &&
	    dwfl_report_end(dwfl, NULL, NULL) == 0 &&
	    dwfl_linux_proc_attach(dwfl, copy->pid, true) == 0)
		/* It fails at the outermost frame, too: what was found is valid. */
		dwfl_getthread_frames(dwfl, copy->pid, each_frame, &found);
	dwfl_end(dwfl);
	return found.count;
}

struct attribution *attribution_make(void)
{
	struct attribution *made = calloc(1, sizeof(*made));

	if (made)
		made->pagemap = -1;
	return made;
}

static void forget_window(struct attribution *attribution)
{
	copy_mappings_free(&attribution->mappings);
	free(attribution->rows);
	attribution->rows = NULL;
	address_map_clear(&attribution->code);
	address_map_clear(&attribution->places);
	if (attribution->pagemap >= 0)
		close(attribution->pagemap);
	attribution->pagemap = -1;
}

void attribution_free(struct attribution *attribution)
{
	if (!attribution)
		return;
	forget_window(attribution);
	address_map_free(&attribution->code);
	address_map_free(&attribution->places);
	free(attribution->blocks);
	for (size_t i = 0; i < attribution->known_count; i++)
		free(attribution->known[i].mapping.name);
	free(attribution->known);
	free(attribution->memory);
	free(attribution->instructions);
	stacks_free(&attribution->stacks);
	free(attribution);
}

/* The executable's bss has no name in /proc/PID/maps; it follows the executable's data. */
static void name_bss(struct copy_mappings *mappings, pid_t pid)
{
	char link[32], executable[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	length = readlink(link, executable, sizeof(executable) - 1);
	if (length < 0)
		return;
	executable[length] = '\0';
	for (size_t i = 1; i < mappings->count; i++) {
		struct copy_mapping *mapping = &mappings->all[i];
		char *name;

		if (*mapping->name || mapping->start != mapping[-1].end ||
		    strcmp(mapping[-1].name, executable) != 0)
			continue;
		name = strdup("[bss]");
		if (!name)
			return;
		free(mapping->name);
		mapping->name = name;
	}
}

/* What is mapped now: no row is about any of it yet. */
static int read_mappings(struct attribution *attribution)
{
	struct copy_mappings mappings;
	size_t *rows;

	if (copy_mappings_read(&mappings, attribution->mapped_in) < 0)
		return -1;
	name_bss(&mappings, attribution->mapped_in);
	rows = malloc((mappings.count + 1) * sizeof(*rows));
	if (!rows) {
		copy_mappings_free(&mappings);
		return -1;
	}
	copy_mappings_free(&attribution->mappings);
	free(attribution->rows);
	attribution->mappings = mappings;
	attribution->rows = rows;
	for (size_t i = 0; i <= mappings.count; i++)
		rows[i] = NO_ROW;
	return 0;
}

int attribution_begin(struct attribution *attribution, const struct copy *copy, uint32_t window)
{
	uint64_t callers[STACKS_DEPTH];
	char path[32];

	forget_window(attribution);
	/* The program's: the copy may be dead when its references are looked up. */
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)copy->program);
	attribution->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	attribution->window = window;
	attribution->pid = copy->program;
	attribution->mapped_in = copy->pid;
	if (read_mappings(attribution) < 0)
		return -1;
	stacks_begin(&attribution->stacks, window, (uint32_t)copy->program, callers,
		     unwind(copy, callers, STACKS_DEPTH));
	return 0;
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

static bool same(const struct copy_mapping *one, const struct copy_mapping *other)
{
	return one->start == other->start && one->end == other->end &&
	       one->offset == other->offset && one->inode == other->inode &&
	       one->major == other->major && one->minor == other->minor &&
	       one->writable == other->writable && one->executable == other->executable &&
	       one->shared == other->shared && strcmp(one->name, other->name) == 0;
}

/* Its number among all that missed; SIZE_MAX: memory ran out. */
static size_t know(struct attribution *attribution, const struct copy_mapping *mapping)
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
static const struct copy_mapping nothing = { .name = (char *)(uintptr_t)"" };

/* Look up the mappings of callers that this window was the first to see. */
static void place_callers(struct attribution *attribution)
{
	struct stacks *stacks = &attribution->stacks;

	for (; attribution->placed < stacks->node_count; attribution->placed++) {
		struct stack_node *node = &stacks->nodes[attribution->placed];
		/* The call is before the address that it returns to. */
		const struct copy_mapping *mapping =
			copy_mappings_find(&attribution->mappings, node->address - 1);
		const size_t number = know(attribution, mapping ? mapping : &nothing);

		if (number == SIZE_MAX)
			attribution->failed = true;
		node->mapping = (uint32_t)number;
	}
}

void attribution_end(struct attribution *attribution)
{
	place_callers(attribution);
	forget_window(attribution);
}

/* The window's row of the mapping that holds the address; NULL: memory ran out. */
static struct memory_row *memory_at(struct attribution *attribution, uint64_t address)
{
	const struct copy_mapping *mapping = copy_mappings_find(&attribution->mappings, address);
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

#define HUGE_BYTES (UINT64_C(2) << 20)
#define PAGE_BYTES UINT64_C(4096)
/* Of a page in pagemap: it is in memory, or swapped out. */
#define PAGEMAP_THERE (UINT64_C(3) << 62)

/* UINT64_MAX: not known, as the program has ended. */
static uint64_t resident_bytes(int pagemap, uint64_t block)
{
	uint64_t pages[HUGE_BYTES / PAGE_BYTES], bytes = 0;
	const off_t at = (off_t)(block / PAGE_BYTES * sizeof(*pages));

	if (pread(pagemap, pages, sizeof(pages), at) != (ssize_t)sizeof(pages))
		return UINT64_MAX;
	for (size_t i = 0; i < HUGE_BYTES / PAGE_BYTES; i++)
		bytes += pages[i] & PAGEMAP_THERE ? PAGE_BYTES : 0;
	return bytes;
}

/* A load or store walked.  Where the mapping does not have all of the block, no huge page can be. */
static void walked_in_block(struct attribution *attribution, enum tlb_size size, uint64_t address)
{
	const uint64_t block = address / HUGE_BYTES * HUGE_BYTES;
	size_t number = (size_t)(uintptr_t)address_map_get(&attribution->places, block);
	const struct copy_mapping *mapping;
	struct block_row *all;

	if (!number) {
		mapping = copy_mappings_find(&attribution->mappings, address);
		if (!mapping || mapping->inode || mapping->shared || !mapping->writable ||
		    mapping->start > block || mapping->end < block + HUGE_BYTES)
			return;
		all = grow(attribution->blocks, attribution->block_count,
			   &attribution->block_capacity, sizeof(*all));
		number = attribution->block_count + 1;
		if (!all || address_map_set(&attribution->places, block,
					    (void *)(uintptr_t)number) < 0) {
			attribution->failed = true;
			return;
		}
		attribution->blocks = all;
		all[attribution->block_count++] = (struct block_row){
			.window = attribution->window, .address = block,
			.resident_bytes = resident_bytes(attribution->pagemap, block),
		};
	}
	attribution->blocks[number - 1].walks[size]++;
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
	if (walk && kind == DATA)
		walked_in_block(attribution, size, address);
	if (walk && stacks_walked(&attribution->stacks, size, where) < 0)
		attribution->failed = true;
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
	(void)addresses;
	stacks_executed(&attribution->stacks, block, next);
}
