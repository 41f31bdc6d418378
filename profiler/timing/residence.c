/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "residence.h"

#define QUANTILES 64u
#define ONE 256u

/* sqrt(-log2 p) and -ln p for p = 1/128, 3/128, ..., in 256ths. */
static const uint16_t lifetime[QUANTILES] = {
	677, 596, 554, 524, 501, 482, 465, 450, 437, 425, 413, 403, 393, 384,
	375, 366, 358, 350, 343, 335, 328, 321, 314, 308, 301, 295, 289, 283,
	277, 271, 265, 259, 253, 247, 242, 236, 230, 225, 219, 214, 208, 202,
	197, 191, 185, 180, 174, 168, 162, 156, 150, 143, 137, 130, 123, 116,
	109, 101, 92, 83, 73, 61, 47, 27,
};
static const uint16_t interval[QUANTILES] = {
	1242, 961, 830, 744, 680, 628, 585, 549, 517, 488, 463, 439, 418, 398,
	380, 363, 347, 332, 318, 304, 291, 279, 268, 256, 246, 236, 226, 216,
	207, 198, 190, 181, 173, 166, 158, 151, 144, 137, 130, 124, 117, 111,
	105, 99, 93, 87, 82, 76, 71, 66, 61, 56, 51, 46, 41, 36, 32, 27, 23,
	19, 14, 10, 6, 2,
};

void residence_begin(struct residence *residence,
		     const struct timing_config *config, ticks time,
		     uint64_t asked, uint64_t brought, uint64_t touched)
{
	const ticks half = (ticks)config->l3_kept * TICKS_PER_CYCLE;
	const uint64_t lines = config->l3_bytes >> LINE_SHIFT;
	/* The time in which the program's own lines fill the cache. */
	ticks own = brought ? time / brought * lines : 0;

	residence->half = own ? half * ONE / (ONE + half * ONE / own) : half;
	/* Before anything was seen, one line after the other comes from memory. */
	residence->wanted = touched * (asked ? time / asked :
				       (ticks)config->memory_cycles * TICKS_PER_CYCLE);
}

bool residence_left(const struct residence *residence, ticks age,
		    uint64_t random)
{
	return age < residence->half * lifetime[random % QUANTILES] / ONE;
}

ticks residence_age(const struct residence *residence, uint64_t random)
{
	return residence->wanted * interval[random % QUANTILES] / ONE;
}
