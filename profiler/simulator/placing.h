/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread goes to memory for which page?  Drives the model of
 * profiler/numa/ with the references of threads, all of them or a sample: of
 * each thread's own references `warm` fill its caches, then `measured` are
 * counted, and the rest of each `period` is not looked at.
 */
#ifndef TLBSIM_PLACING_H
#define TLBSIM_PLACING_H

#include "tlbsim.h"

/* What a thread has between its turns. */
struct placing_thread {
	struct placement_thread *caches;	/* NULL: not placing */
	UInt phase;
	ULong left;				/* references of its phase */
};

/* Is the thread that runs now looked at?  1: its caches alone; 2: counted. */
extern ULong tlbsim_placing;
/* Time at which that changes. */
extern ULong tlbsim_next_turn;

/* Read "PERIOD:WARM:MEASURED" and "L2:WAYS,L3:WAYS" into tlbsim.placing. */
Bool placing_parse(const HChar *text);
Bool placing_parse_caches(const HChar *text);

/* A new process image, or its files were named: what was found is forgotten. */
void placing_start(void);
void placing_name(const HChar *folder, UInt image);
void placing_write(const HChar *state);

/* Threads: the new one's state; the next one to run; one that is gone. */
void placing_thread_start(struct placing_thread *thread, UInt number);
void placing_switch(struct placing_thread *next);
void placing_drop(struct placing_thread *thread);

/* The thread that runs now walked for this address; it may be its first touch. */
void placing_walked(ULong address);

/* Called from the program's code: a run of references while one is looked at. */
void tlbsim_place(const struct run *run, const ULong *bases);
/* A block begins at tlbsim_next_turn or later. */
void tlbsim_turn(void);

#endif
