/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is memory that is put in place of other memory the same, and for nobody else? */
#include <stdio.h>
#include <string.h>

#include "arm.h"
#include "arm_memory.h"
#include "arm_programs.h"
#include "copy_mappings.h"
#include "private_memory.h"

static bool gives_huge_pages(void)
{
	FILE *enabled = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	char mode[64] = "[never]";

	if (enabled) {
		if (!fgets(mode, sizeof(mode), enabled))
			mode[0] = '\0';
		fclose(enabled);
	}
	return *mode && !strstr(mode, "[never]");
}

/* As before Linux 6.1: memory that is filled anew has the same content, and runs on. */
TEST(memory_is_filled_anew)
{
	static uint64_t before[WORDS], after[WORDS];
	struct arm_backing backing;
	struct arm_stretch stretch = { 0 };
	struct injected injected;
	struct copy copy;
	struct arm arm;
	const bool given = gives_huge_pages();

	if (begin(&injected, &copy, reads) == 0) {
		const uint64_t start = (*shared + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
		const uint64_t end = (*shared + BYTES) / HUGE_PAGE * HUGE_PAGE;

		CHECK_EQUAL(arm_fork(&arm, &copy), 0);
		CHECK_EQUAL(copy_read(&arm.copy, *shared, before, sizeof(before)), 0);
		CHECK_EQUAL(private_memory_replace(&arm.copy, &arm.registers, start, end,
						   PROT_READ | PROT_WRITE, HUGE_PAGE), 0);
		CHECK_EQUAL(copy_read(&arm.copy, *shared, after, sizeof(after)), 0);
		CHECK_EQUAL(memcmp(before, after, sizeof(before)), 0);
		CHECK_EQUAL(arm_backing_read(&backing, arm.copy.pid), 0);
		/* Other tests turn them off for a while. */
		if (given && gives_huge_pages())
			CHECK_EQUAL(backing.huge_bytes, end - start);
		CHECK_EQUAL(arm_run(&arm, NULL, 50 * MS, &stretch), ARM_TIME);
		arm_kill(&arm, &copy);
	}
	end(&injected, &copy);
}

/* Its own code, and that of libraries, as anonymous memory: it runs on there. */
TEST(text_is_made_private)
{
	struct copy_mappings mappings;
	struct arm_stretch stretch = { 0 };
	struct injected injected;
	const struct copy_mapping *code;
	struct copy copy;
	struct arm arm;

	if (begin(&injected, &copy, updates) == 0) {
		CHECK_EQUAL(private_memory_text(&copy, &copy.start, 4096), 0);
		CHECK_EQUAL(copy_mappings_read(&mappings, copy.pid), 0);
		code = copy_mappings_find(&mappings, (uintptr_t)updates);
		CHECK(code && !code->inode && code->executable);
		copy_mappings_free(&mappings);
		CHECK_EQUAL(arm_fork(&arm, &copy), 0);
		CHECK_EQUAL(arm_run(&arm, NULL, 50 * MS, &stretch), ARM_TIME);
		arm_kill(&arm, &copy);
	}
	end(&injected, &copy);
}

CHECK_MAIN
