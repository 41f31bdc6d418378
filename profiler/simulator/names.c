/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "names.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"

#include "table.h"

#define FIRST_CAPACITY 64u
#define SLOTS_PER_NAME 2u

static UInt hash_of(const HChar *text)
{
	UInt hash = 2166136261u;	/* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (UChar)*text) * 16777619u;
	return hash;
}

/* The slot of the text, or the free slot where it belongs. */
static UInt *slot_of(const struct names *names, const HChar *text)
{
	UInt mask = SLOTS_PER_NAME * names->capacity - 1;

	for (UInt i = hash_of(text);; i++) {
		UInt *slot = &names->slots[i & mask];

		if (!*slot || !VG_(strcmp)(names->text[*slot - 1], text))
			return slot;
	}
}

static void grow(struct names *names)
{
	names->capacity = names->capacity ? 2 * names->capacity : FIRST_CAPACITY;
	names->text = VG_(realloc)("tlbsim.names", names->text,
				   names->capacity * sizeof(*names->text));
	VG_(free)(names->slots);
	names->slots = VG_(calloc)("tlbsim.names", SLOTS_PER_NAME * names->capacity,
				   sizeof(*names->slots));
	for (UInt i = 0; i < names->count; i++)
		*slot_of(names, names->text[i]) = i + 1;
}

UInt names_number(struct names *names, const HChar *text)
{
	UInt *slot;

	if (!text)
		return NO_NAME;
	if (names->count == names->capacity)
		grow(names);
	slot = slot_of(names, text);
	if (!*slot) {
		names->text[names->count++] = VG_(strdup)("tlbsim.names", text);
		*slot = names->count;
	}
	return *slot - 1;
}

void names_free(struct names *names)
{
	for (UInt i = 0; i < names->count; i++)
		VG_(free)(names->text[i]);
	VG_(free)(names->text);
	VG_(free)(names->slots);
	VG_(memset)(names, 0, sizeof(*names));
}

void names_write(const struct names *names, VgFile *file)
{
	for (UInt i = 0; i < names->count; i++) {
		VG_(fprintf)(file, "# name_%u: ", i);
		table_text(file, names->text[i]);
	}
}

void names_cell(VgFile *file, UInt number)
{
	if (number == NO_NAME)
		VG_(fprintf)(file, "\tNA");
	else
		VG_(fprintf)(file, "\t%u", number);
}

/* The last place where `what` is in the text, or NULL. */
static HChar *find_last(HChar *text, const HChar *what)
{
	HChar *last = NULL;

	while ((text = VG_(strstr)(text, what)) != NULL)
		last = text++;
	return last;
}

/* Of "0x12: function (file:line)", "... (in object)" or "0x12: ???". */
static struct code_line parse(struct names *names, const HChar *described)
{
	struct code_line line = { NO_NAME, NO_NAME, NO_NAME, 0 };
	HChar *text = VG_(strdup)("tlbsim.names", described);
	HChar *function = VG_(strstr)(text, ": "), *place, *colon;

	function = function ? function + 2 : text;
	place = VG_(strstr)(function, " (in ");
	if (!place)
		place = find_last(function, " (");
	if (place) {
		colon = VG_(strrchr)(place, ':');
		*place = 0;
		if (colon) {
			line.line = (UInt)VG_(strtoull10)(colon + 1, NULL);
			*colon = 0;
			line.file = names_number(names, place + 2);
		}
	}
	if (VG_(strcmp)(function, "???"))
		line.function = names_number(names, function);
	VG_(free)(text);
	return line;
}

UInt names_lines(struct names *names, DiEpoch epoch, Addr address,
		 struct code_line lines[MOST_INLINED])
{
	InlIPCursor *cursor = VG_(new_IIPC)(epoch, address);
	const HChar *text;
	UInt object = NO_NAME, count = 0;

	if (VG_(get_objname)(epoch, address, &text))
		object = names_number(names, text);
	do {
		lines[count] = parse(names, VG_(describe_IP)(epoch, address, cursor));
		/* "(in object)" has a colon where the path has one. */
		if (!lines[count].line)
			lines[count].file = NO_NAME;
		lines[count++].object = object;
	} while (VG_(next_IIPC)(cursor) && count < MOST_INLINED);
	VG_(delete_IIPC)(cursor);
	return count;
}
