/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vdso.h"

#include "code_cache.h"

bool vdso_is_clock(const struct translator *translator, uint64_t address)
{
	(void)translator;
	(void)address;
	return false;
}
