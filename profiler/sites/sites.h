/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocation sites: a library that the program is started with (LD_PRELOAD) and what it writes.
 *
 * TLBCOST_SITES=FOLDER: allocations go to FOLDER/sites.PID: all of SITES_LARGE bytes and more, and
 * of the others one in SITES_EVERY bytes, as the heap profilers of tcmalloc and Go do.  The file is
 * mapped, so that a program that is killed leaves it whole.  It is made for the first of them and
 * grows; where there is no room for it (RLIMIT_FSIZE, a full disk), nothing is recorded.
 * TLBCOST_SITES_PLAN=KEY,KEY...: memory of these sites asks for transparent huge pages
 * (MADV_HUGEPAGE): blocks of SITES_ADVISED bytes and more, and the places of 2 MiB that hold sampled
 * smaller ones, which are copied to huge pages once these stand for half of the place.
 *
 * A site is a call stack from malloc or mmap on.  Its key has the names of the callers' objects and
 * the offsets in them, so it stays the same from run to run of one build.
 */
#ifndef SITES_H
#define SITES_H

#include <stdint.h>

#define SITES_MAGIC UINT64_C(0x3173657469736c74)	/* "tlsites1" */
#define SITES_LARGE (UINT64_C(1) << 20)
#define SITES_EVERY (UINT64_C(512) << 10)
#define SITES_ADVISED (UINT64_C(128) << 10)
#define SITES_FRAMES 12u
#define SITES_OBJECTS 255u
#define SITES_NAME 256u
#define SITES_ROWS (1u << 16)

/* An allocation, or with `weight` 0 its end. */
struct sites_row {
	uint64_t address;
	uint64_t bytes;
	uint64_t weight;		/* bytes of allocations that it stands for */
	uint64_t key;
	uint64_t frames[SITES_FRAMES];	/* innermost first: object << 56 | offset; 0: no more */
};

/* The file.  Objects are numbered from 1 on; number 0 is code without a file. */
struct sites_file {
	uint64_t magic;
	uint64_t count;			/* rows written; beyond SITES_ROWS: lost */
	uint64_t objects;
	char names[SITES_OBJECTS][SITES_NAME];
	struct sites_row rows[SITES_ROWS];
};

#endif
