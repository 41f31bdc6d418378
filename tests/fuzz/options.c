/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are options of a modelled machine, the engines' and the simulator's, read or refused? */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/parse.h"
#include "engine/view_options.h"
#include "fuzz.h"

/* What is read ends within the text: rest is NULL, or in it. */
static void check_rest(const char *text, size_t size, const char *rest)
{
	if (rest && (rest < text || rest > text + size))
		abort();
}

/* Each line is one --view more. */
static void check_views(char *text)
{
	static struct tlb_view_config views[TLB_MOST_VIEWS];
	uint32_t count = 0;

	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!view_option(line, count, views))
			continue;
		if (!views[count].page_shift || !views[count].l1d.entries ||
		    !views[count].l1i.entries)
			abort();
		count++;
	}
}

void fuzz_options(const uint8_t *bytes, size_t size)
{
	struct timing_config core = { 0 };
	struct tlb_geometry level;
	uint64_t numbers[4];
	uint32_t shift = 0;
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, bytes, size);
	text[size] = '\0';
	check_rest(text, size, parse_numbers(text, 4, numbers));
	check_rest(text, size, parse_level(text, &level));
	check_rest(text, size, parse_page_size(text, &shift));
	if (shift >= 64)
		abort();
	(void)parse_core(text, &core);
	check_views(text);
	free(text);
}
