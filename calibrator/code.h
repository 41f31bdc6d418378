/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does one jump take if every jump is on its own page of code?
 *
 * The instruction side's counterpart of a chase: line i, at memory + i * stride, holds one
 * direct jump to the next line, in random order.  The last one counts the round and jumps to
 * the first again, or returns.  Chains with equal lines and another stride differ in the pages
 * that they need.
 */
#ifndef TLBCOST_CODE_H
#define TLBCOST_CODE_H

#include <stddef.h>
#include <stdint.h>

/* No line needs more bytes; strides are multiples of it. */
#define CODE_LINE_BYTES 16

struct code {
	char *memory;		/* whole pages, writable, not shared */
	size_t bytes;		/* of memory; with huge pages, whole huge pages */
	size_t stride;		/* bytes, a multiple of CODE_LINE_BYTES */
	size_t lines;
	void *entry;		/* set by code_link() */
};

/* Bytes that a chain can span: what a direct jump reaches.  0: no jumps for this CPU. */
size_t code_reach(void);

/*
 * Write the jumps, and make all of the memory readable and executable, never
 * writable at the same time; may be called again for other lines or another
 * stride.  `order` holds code->lines elements.  Returns 0, or -1 with errno set:
 * EINVAL (the lines do not fit into the memory), ERANGE (further than a jump
 * reaches), ENOTSUP (code_reach() is 0), EACCES or EPERM (this system refuses to
 * execute memory that was written).
 */
int code_link(struct code *code, uint32_t *order, uint64_t *seed);

/* Go round a linked chain `rounds` times, at least once. */
void code_run(const struct code *code, size_t rounds);

/*
 * ns per jump of a linked chain, over whole rounds of at least `jumps` jumps, after one
 * untimed round.
 */
double code_time(const struct code *code, size_t jumps);

#endif
