/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arithmetic in registers: address translation costs nothing here. */
#include "workload.h"

int main(int argc, char **argv)
{
	uint64_t count = 500000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "steps" },
		{ "seed", &seed, 0, "of the numbers" },
	};
	uint64_t state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Compute without memory.", options);
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++)
		sum += workload_random(&state);
	return workload_finish(sum);
}
