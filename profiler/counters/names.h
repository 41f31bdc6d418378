/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which number stands for a path, so that each is kept once? */
#ifndef TLBCOST_COUNTERS_NAMES_H
#define TLBCOST_COUNTERS_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NO_NAME UINT32_MAX
#define STACK_NAME "[stack]"
#define ANONYMOUS_NAME "[anonymous]"

struct name {
	char *text;
	unsigned char build_id[20];	/* of the file, as mapped */
	size_t build_id_size;		/* 0: not known */
};

/* Numbered from 0.  Zeroed is empty.  Only `list` and `count` are public. */
struct names {
	struct name *list;
	uint32_t count;
	uint32_t room;
	uint32_t *slots;	/* hash table of numbers + 1 */
	uint32_t slot_count;
};

/*
 * The number of the text of this length; the same text with a different build id is a
 * different name.  Returns NO_NAME with errno ENOMEM.
 */
uint32_t names_number(struct names *names, const char *text, size_t length,
		      const unsigned char *build_id, size_t build_id_size);

/*
 * How tables name what the kernel calls `text`: "[heap]", "[stack]",
 * "[anonymous]", "[shared]" (memory without a file in a folder), or a path or
 * name in brackets as it is.  *length is that of the result.
 */
const char *mapping_name(const char *text, size_t *length);

/* Forget all names: zeroed again. */
void names_free(struct names *names);

#endif
