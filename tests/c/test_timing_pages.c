/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do huge pages, and a hypervisor's tables, change of walks? */
#include "timing.h"

#define MEMORY CYCLES(200)

TEST(hypervisors_add_the_reads_of_their_tables)
{
	struct timing_config config = plain_config();
	ticks plain[3], nested[3];

	for (int i = 0; i < 2; i++) {
		struct rig *rig = make_rig(&config, false);
		ticks *time = i ? nested : plain;

		time[0] = walk(rig, 0);
		time[1] = walk(rig, BASE_PAGE);
		time[2] = walk(rig, 8 * BASE_PAGE);
		drop_rig(rig);
		config.host_shift = BASE_SHIFT;
	}
	CHECK_EQUAL(plain[0], 2 * MEMORY);
	CHECK(nested[0] >= plain[0] + 2 * MEMORY);
	/* An entry of the guest's, and one of the host's. */
	CHECK_EQUAL(nested[1], 2 * plain[1]);
	CHECK_EQUAL(nested[2], 2 * plain[2]);
}

TEST(one_walk_serves_a_whole_huge_page)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, true);
	struct translation *translation = &rig->core.translation;
	const uint64_t far = 300 * BASE_PAGE;

	translation_missed(translation, 0, MISS_WALK);
	CHECK_EQUAL(translate(translation, far, 0), 2 * MEMORY);
	CHECK_EQUAL(translate(translation, 0, CYCLES(10)), 2 * MEMORY);
	CHECK_EQUAL(translate(translation, HUGE_PAGE, CYCLES(10)), CYCLES(10));
	drop_rig(rig);

	/* Of its own base pages only, where the host has no others. */
	config.host_shift = BASE_SHIFT;
	rig = make_rig(&config, true);
	translation = &rig->core.translation;
	translation_missed(translation, 0, MISS_WALK);
	CHECK_EQUAL(translate(translation, far, 0), 0);
	CHECK(translate(translation, 0, 0) >= 4 * MEMORY);
	CHECK(walk(rig, far) >= MEMORY);
	drop_rig(rig);
}

/* In the order of addresses: the entries of huge pages are fewer lines. */
TEST(walks_of_huge_pages_read_less)
{
	struct timing_config config = plain_config();
	ticks time[2];

	for (config.host_shift = 0; config.host_shift <= BASE_SHIFT;
	     config.host_shift += BASE_SHIFT) {
		for (int huge = 0; huge <= 1; huge++) {
			struct rig *rig = make_rig(&config, huge);

			time[huge] = 0;
			for (uint64_t i = 0; i < 2000; i++)
				time[huge] += walk(rig, i * 8 * BASE_PAGE);
			drop_rig(rig);
		}
		CHECK(time[1] < time[0]);
		/* The host's reads are saved by none. */
		CHECK(!config.host_shift || time[1] > 2000 * MEMORY);
	}
}

CHECK_MAIN
