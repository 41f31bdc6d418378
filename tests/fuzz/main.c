/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a reader survive what libFuzzer thinks of?  TARGET is one of fuzz.h. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	TARGET(bytes, size);
	return 0;
}
