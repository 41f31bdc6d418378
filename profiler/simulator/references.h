/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program's code calls when a reference may change the model. */
#ifndef TLBSIM_REFERENCES_H
#define TLBSIM_REFERENCES_H

#include "run.h"

/* A run of references, with the values of its bases. */
void tlbsim_run0(const struct run *run);
void tlbsim_run1(const struct run *run, ULong b0);
void tlbsim_run2(const struct run *run, ULong b0, ULong b1);
void tlbsim_run3(const struct run *run, ULong b0, ULong b1, ULong b2);
void tlbsim_run4(const struct run *run, ULong b0, ULong b1, ULong b2, ULong b3);

/* Code at this address is about to be executed. */
void tlbsim_fetch(ULong address, ULong time);

#endif
