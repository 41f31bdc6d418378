/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does an option's value say?  Functions that return text return the rest of it, or NULL
 * if the text is wrong.  Shared by all engines: no library is needed.
 */
#ifndef TLBCOST_ENGINE_PARSE_H
#define TLBCOST_ENGINE_PARSE_H

#include "timing/config.h"
#include "tlb/level.h"


/* Numbers separated by colons. */
const char *parse_numbers(const char *text, uint32_t count, uint64_t numbers[]);

/* A level of a TLB, "entries:ways". */
const char *parse_level(const char *text, struct tlb_geometry *level);

/* log2 of a page size in bytes, from 4096 on. */
const char *parse_page_size(const char *text, uint32_t *shift);

/* Change fields of a core, "name=value,name=value:value,..."; false: it has no such field. */
bool parse_core(const char *text, struct timing_config *core);
/* The names of these fields by their numbers, for --help; NULL: there are no more. */
const char *parse_core_field(uint32_t number);

/* What Valgrind's tools have no library for. */
static inline size_t text_length(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

/* What follows `beginning` at the start of the text; NULL: it begins otherwise. */
static inline const char *text_after(const char *text, const char *beginning)
{
	for (; *beginning; text++, beginning++)
		if (*text != *beginning)
			return NULL;
	return text;
}

#endif
