/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code_tables.h"
#include "code.h"
#include "mappings_resolve.h"
#include "table.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"

/* Stacks whose frames are written: sites of mappings, and those that walk. */
static ExeContext **stacks;
static UInt stack_count, stack_capacity;

UInt stack_number(ExeContext *stack)
{
	UInt i = 0;

	if (!stack)
		return NO_NAME;
	while (i < stack_count && stacks[i] != stack)
		i++;
	if (i < stack_count)
		return i;
	if (stack_count == stack_capacity) {
		stack_capacity = stack_capacity ? 2 * stack_capacity : 256;
		stacks = VG_(realloc)("tlbsim.stacks", stacks,
				    stack_capacity * sizeof(*stacks));
	}
	stacks[stack_count] = stack;
	return stack_count++;
}

static VgFile *open_table(const HChar *kind, const HChar *state)
{
	return table_open((struct table_header){
		.kind = kind, .state = state,
		.executable = mapping_executable ? mapping_executable : "NA",
	});
}

struct code_row {
	struct code_line line;
	const struct code_misses *code;
};

/* What C++ inlines of its containers: readers look for the loop around it. */
static Bool is_container(const struct names *names, const struct code_line *line)
{
	static const HChar *const headers[] = {
		"stl_", "hashtable", "new_allocator.h", "basic_string.", "unique_ptr.h",
		"shared_ptr", "unordered_map.h", "unordered_set.h",
	};
	const HChar *file = line->file == NO_NAME ? "" : names->text[line->file];

	for (UInt i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (VG_(strncmp)(file, headers[i], VG_(strlen)(headers[i])) == 0)
			return True;
	return False;
}

/* The innermost line that is not a container's, or else the innermost. */
static struct code_line line_of(struct names *names, const struct code_misses *code)
{
	struct code_line lines[MOST_INLINED];
	UInt count = names_lines(names, code->epoch, code->instruction, lines);

	for (UInt i = 0; i < count; i++)
		if (!is_container(names, &lines[i]))
			return lines[i];
	return lines[0];
}

static void write_line(VgFile *file, const struct code_line *line)
{
	names_cell(file, line->object);
	names_cell(file, line->function);
	names_cell(file, line->file);
	if (line->line)
		VG_(fprintf)(file, "\t%u", line->line);
	else
		VG_(fprintf)(file, "\tNA");
}

static void write_code(const HChar *state)
{
	VgFile *file = open_table("code", state);
	struct code_row *rows;
	struct names names = { 0 };
	UInt count = 0, program;

	if (!file)
		return;
	program = names_number(&names, mapping_executable ? mapping_executable :
							      VG_(args_the_exename));
	rows = VG_(malloc)("tlbsim.code", (code_table.count + 1) * sizeof(*rows));
	for (UInt i = 0; i < code_table.capacity; i++) {
		const struct code_misses *code = &code_table.code[i];

		if (!code->used)
			continue;
		rows[count++] = (struct code_row){ line_of(&names, code), code };
	}
	names_write(&names, file);
	VG_(fprintf)(file, "program\taddress\tobject\tfunction\tfile\tline\t"
		     "base_stlb_hits\tbase_stlb_misses\t"
		     "huge_stlb_hits\thuge_stlb_misses\t"
		     "base_fetch_stlb_hits\tbase_fetch_stlb_misses\t"
		     "huge_fetch_stlb_hits\thuge_fetch_stlb_misses\n");
	for (UInt i = 0; i < count; i++) {
		VG_(fprintf)(file, "%u\t%llu", program, rows[i].code->instruction);
		write_line(file, &rows[i].line);
		for (Int side = 0; side < MISSES_SIDES; side++)
			for (Int size = 0; size < TLB_SIZES; size++)
				table_misses(file, &rows[i].code->counted[size][side]);
		VG_(fprintf)(file, "\n");
	}
	table_close(file, count);
	names_free(&names);
	VG_(free)(rows);
}

static void write_stacks(const HChar *state)
{
	VgFile *file = open_table("stacks", state);
	UInt rows = 0;

	if (!file)
		return;
	code_settle();
	VG_(fprintf)(file, "stack\tbase_stlb_misses\thuge_stlb_misses\n");
	for (UInt i = 0; i <= STACK_SLOTS; i++) {
		const struct stack_walks *walks =
			i < STACK_SLOTS ? &stack_table.stack[i] : &stack_table.other;
		UInt number;

		if (!walks->walks[TLB_BASE] && !walks->walks[TLB_HUGE])
			continue;
		number = stack_number(walks->stack);
		if (number == NO_NAME)
			VG_(fprintf)(file, "NA");
		else
			VG_(fprintf)(file, "%u", number);
		VG_(fprintf)(file, "\t%llu\t%llu\n", walks->walks[TLB_BASE],
			     walks->walks[TLB_HUGE]);
		rows++;
	}
	table_close(file, rows);
}

/* Where lines of a stack's frames go. */
struct frames {
	struct names *names;
	struct code_line *lines;
	UInt count, room;
};

static void take_frame(UInt number, DiEpoch epoch, Addr address, void *opaque)
{
	struct frames *frames = opaque;

	(void)number;
	if (frames->count + MOST_INLINED > frames->room) {
		frames->room = 2 * frames->room + MOST_INLINED;
		frames->lines = VG_(realloc)("tlbsim.frames", frames->lines,
					     frames->room * sizeof(*frames->lines));
	}
	frames->count += names_lines(frames->names, epoch, address,
				     frames->lines + frames->count);
}

static void write_frames(const HChar *state)
{
	VgFile *file = open_table("frames", state);
	struct names names = { 0 };
	struct frames *frames;
	UInt rows = 0;

	if (!file)
		return;
	frames = VG_(calloc)("tlbsim.frames", stack_count + 1, sizeof(*frames));
	for (UInt i = 0; i < stack_count; i++) {
		frames[i].names = &names;
		VG_(apply_ExeContext)(take_frame, &frames[i], stacks[i]);
	}
	names_write(&names, file);
	VG_(fprintf)(file, "stack\tdepth\tobject\tfunction\tfile\tline\n");
	for (UInt i = 0; i < stack_count; i++) {
		for (UInt depth = 0; depth < frames[i].count; depth++, rows++) {
			VG_(fprintf)(file, "%u\t%u", i, depth);
			write_line(file, &frames[i].lines[depth]);
			VG_(fprintf)(file, "\n");
		}
		VG_(free)(frames[i].lines);
	}
	table_close(file, rows);
	VG_(free)(frames);
	names_free(&names);
}

void code_tables_start(void)
{
	stack_count = 0;
}

void code_tables_write(const HChar *state)
{
	write_code(state);
	write_stacks(state);
	write_frames(state);
}
