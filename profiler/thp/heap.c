/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "heap.h"

static uint64_t end_of_huge_page(uint64_t address, uint64_t huge_page_bytes)
{
	return (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

enum heap_action heap_enter(struct memory *memory, uint64_t wanted, uint64_t huge_page_bytes,
			    uint64_t *end)
{
	*end = wanted;
	if (!memory->heap_end)
		return HEAP_PASS;
	if (wanted == 0 || wanted == memory->believed_end) {
		*end = memory->believed_end;
		return HEAP_ANSWER;
	}
	if (wanted < memory->heap_start || wanted > UINT64_MAX - huge_page_bytes)
		return HEAP_PASS;
	if (wanted < memory->believed_end) {
		*end = end_of_huge_page(wanted, huge_page_bytes);
		if (*end > memory->heap_end)
			*end = memory->heap_end;
		return HEAP_SHRINK;
	}
	if (wanted <= memory->heap_end) {
		memory->believed_end = wanted;
		return HEAP_ANSWER;
	}
	*end = end_of_huge_page(wanted, huge_page_bytes);
	return HEAP_GROW;
}

int heap_exit(struct memory *memory, uint64_t wanted, uint64_t argument, uint64_t result,
	      uint64_t *end)
{
	int known = memory->heap_end != 0;

	if (result < wanted && argument != wanted)
		return 0;
	/* A call that is refused returns the heap's end as it was. */
	if (!known || result == argument)
		memory->believed_end = known || result == wanted ? wanted : result;
	if (!known)
		memory->heap_start = result;
	memory->heap_end = result;
	*end = memory->believed_end;
	return 1;
}
