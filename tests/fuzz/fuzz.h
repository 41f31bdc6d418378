/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which readers of text and records from outside are there, as one function each? */
#ifndef TLBCOST_FUZZ_H
#define TLBCOST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Each takes any bytes, and returns unless it finds something wrong. */
void fuzz_encode(const uint8_t *bytes, size_t size);
void fuzz_files(const uint8_t *bytes, size_t size);
void fuzz_options(const uint8_t *bytes, size_t size);

#endif
