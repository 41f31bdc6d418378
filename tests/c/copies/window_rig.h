/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A worker that is made up: windows of what it executes, and their tables. */
#ifndef TLBCOST_WINDOW_RIG_H
#define TLBCOST_WINDOW_RIG_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "instruction.h"
#include "window.h"
#include "window_options.h"

#define CODE 0x400000u
#define DATA UINT64_C(0x10000000)
#define PAGE UINT64_C(4096)

/* A made-up worker; `block` is what it executes. */
struct rig {
	struct window_options options;
	struct windows *windows;
	const struct watcher *watcher;
	struct code_instruction instructions[2];
	struct code_reference references[4];
	struct code_block block;
	char folder[64];
};

static inline struct rig *make_rig(bool timed)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	window_options_init(&rig->options);
	CHECK_EQUAL(window_options_take(&rig->options, "l1d", "16:4,16:4"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "stlb", "64:4,64:4"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "warm", "1000000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "most-warm", "3000000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "core-warm", "1000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "measure", "9000"), 1);
	rig->options.timed = timed;
	rig->options.core_text = timed ? "made-up" : NULL;
	CHECK(!window_options_check(&rig->options));
	rig->windows = windows_make(&rig->options);
	rig->watcher = windows_watcher(rig->windows);
	rig->block = (struct code_block){
		.address = CODE, .past = CODE + 3, .end = ENDS_CUT, .instruction_count = 1,
		.instructions = rig->instructions, .references = rig->references,
	};
	rig->instructions[0] = (struct code_instruction){ CODE, 3 };
	strcpy(rig->folder, "/tmp/tlbcost-window.XXXXXX");
	CHECK(mkdtemp(rig->folder) != NULL);
	return rig;
}

/* mov rax, [rbx] */
static inline void make_load(struct rig *rig)
{
	static const uint8_t code[] = { 0x48, 0x8b, 0x03 };
	struct instruction decoded;

	CHECK(instruction_decode(&decoded, code, sizeof(code), CODE));
	rig->references[0] = (struct code_reference){ 0, 8, REFERENCE_LOAD };
	rig->block.reference_count = 1;
	rig->block.watched = rig->watcher->translated(rig->watcher->context, &rig->block, &decoded);
}

static inline void begin(struct rig *rig, uint32_t number)
{
	const struct copy self = { .pid = getpid(), .program = getpid(), .thread = 8 };
	const struct window_start start = { .number = number, .at_cpu_ns = 1000 };

	CHECK_EQUAL(windows_begin(rig->windows, &self, &start), 0);
}

static inline bool execute(struct rig *rig, uint64_t address)
{
	return rig->watcher->executed(rig->watcher->context, &rig->block, &address, CODE);
}

static inline void end(struct rig *rig, enum follow_end how)
{
	const struct followed followed = { .end = how, .call = 202 };

	CHECK_EQUAL(windows_end(rig->windows, &followed), 0);
}

/* Loads from pages in a cycle until the window has enough, or `most` of them; how many. */
static inline uint64_t cycle(struct rig *rig, uint64_t pages, uint64_t most)
{
	uint64_t count = 0;

	while (count < most && execute(rig, DATA + count % pages * PAGE))
		count++;
	return count;
}

static inline void write_tables(struct rig *rig)
{
	CHECK_EQUAL(windows_write(rig->windows, rig->folder, 3), 0);
}

static inline void drop_rig(struct rig *rig)
{
	char command[128];

	if (rig->block.watched)
		rig->watcher->forgotten(rig->watcher->context, rig->block.watched);
	windows_free(rig->windows);
	snprintf(command, sizeof(command), "rm -r %s", rig->folder);
	CHECK_EQUAL(system(command), 0);
	free(rig);
}

static inline int find_column(const char *names, const char *name)
{
	const size_t length = strlen(name);
	int column = 0;

	for (const char *at = names;; column++) {
		const size_t here = strcspn(at, "\t\n");

		if (here == length && strncmp(at, name, length) == 0)
			return column;
		if (at[here] != '\t')
			return -1;
		at += here + 1;
	}
}

/* A cell of row `row`, from 0, as text; "" if there is none. */
static inline const char *cell(struct rig *rig, const char *kind, int row, const char *name)
{
	static char text[64];
	char path[128], line[1024];
	int column = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.3.tsv", rig->folder, kind);
	file = fopen(path, "r");
	text[0] = '\0';
	CHECK(file != NULL);
	if (!file)
		return text;
	while (fgets(line, sizeof(line), file)) {
		const char *at = line;

		if (line[0] == '#')
			continue;
		if (column < 0) {
			column = find_column(line, name);
			CHECK(column >= 0);
			if (column < 0)
				break;
			continue;
		}
		if (row-- > 0)
			continue;
		for (int i = 0; i < column; i++)
			at += strcspn(at, "\t") + 1;
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, "\t\n"), at);
		break;
	}
	fclose(file);
	return text;
}

static inline long long value(struct rig *rig, const char *kind, int row, const char *name)
{
	const char *text = cell(rig, kind, row, name);

	if (text[0] && text[strspn(text, "0123456789")] == '\0')
		return atoll(text);
	printf("# %s of row %d of %s is \"%s\"\n", name, row, kind, text);
	return -1;
}

/* The same machine with other options. */
static inline void remake(struct rig *rig, const char *name, const char *text)
{
	windows_free(rig->windows);
	CHECK_EQUAL(window_options_take(&rig->options, name, text), 1);
	CHECK(!window_options_check(&rig->options));
	rig->windows = windows_make(&rig->options);
	rig->watcher = windows_watcher(rig->windows);
}

/* Rows of copy_counts in each window, by page size and side. */
enum { BASE_LOADS, BASE_STORES, BASE_FETCHES, HUGE_LOADS, HUGE_STORES, HUGE_FETCHES, ROWS };

#endif
